// Repeated string instructions (rep movs, rep stos, repe/repne cmps and scas), all iterations at
// once: Unicorn executes them one iteration at a time, at some 15 ns each.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_STRING_OPERATION_H_
#define HINDSIGHT_EMULATOR_ASSIST_STRING_OPERATION_H_

#include <Zydis/Zydis.h>

#include <cstdint>

#include "emulator/assist/guest_memory.h"
#include "isa/registers.h"

namespace hindsight {

// Whether ExecuteString() implements it.
bool IsStringOperation(const ZydisDecodedInstruction& instruction);

// Executes all iterations of the instruction at registers->rip and advances rip. False if one
// faults: then the registers have not changed, but memory has, by the iterations before. Requires:
// IsStringOperation, and the direction flag is clear.
bool ExecuteString(const ZydisDecodedInstruction& instruction, RegisterFile* registers,
                   GuestMemory* memory);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_STRING_OPERATION_H_
