// Gathers and scatters, element by element.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_GATHER_H_
#define HINDSIGHT_EMULATOR_ASSIST_GATHER_H_

#include "emulator/assist/guest_memory.h"
#include "emulator/assist/host_plan.h"
#include "isa/registers.h"

namespace hindsight {

// False, with nothing changed, if an element faults. Requires: plan.is_gather / plan.is_scatter.
bool Gather(const HostPlan& plan, RegisterFile* registers, GuestMemory* memory);
bool Scatter(const HostPlan& plan, RegisterFile* registers, GuestMemory* memory);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_GATHER_H_
