// Software assist: the few assisted instructions that are simple to implement in C++. Most run on
// the host's processor instead (host_assist.h); instruction_executor.h combines the two.
//
// An assisted instruction is a function of registers and memory like any other, so nothing is
// recorded for it. Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_SOFTWARE_ASSIST_H_
#define HINDSIGHT_EMULATOR_ASSIST_SOFTWARE_ASSIST_H_

#include <Zydis/Zydis.h>

#include "emulator/assist/guest_memory.h"
#include "isa/registers.h"

namespace hindsight {

// Whether ExecuteInSoftware() implements the instruction.
bool HasSoftwareAssist(const ZydisDecodedInstruction& instruction);

// Executes the instruction at registers->rip and advances rip. False, with nothing changed, if it
// faults. Requires: HasSoftwareAssist.
bool ExecuteInSoftware(const ZydisDecodedInstruction& instruction,
                       const ZydisDecodedOperand* operands, RegisterFile* registers,
                       GuestMemory* memory);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_SOFTWARE_ASSIST_H_
