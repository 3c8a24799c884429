// Gathers and scatters, element by element.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_GATHER_H_
#define HINDSIGHT_EMULATOR_ASSIST_GATHER_H_

#include "emulator/assist/assist_memory.h"
#include "emulator/assist/assist_plan.h"
#include "isa/registers.h"

namespace hindsight {

// False, and nothing changed, if an element faults. Requires: the plan is one of them.
bool Gather(const AssistPlan& plan, RegisterFile* registers, AssistMemory* memory);
bool Scatter(const AssistPlan& plan, RegisterFile* registers, AssistMemory* memory);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_GATHER_H_
