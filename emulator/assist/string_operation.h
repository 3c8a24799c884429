// Repeated string instructions (rep movs, rep stos, repe/repne cmps and scas), as a whole: an
// engine executes them one iteration at a time, at some 15 ns each.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_STRING_OPERATION_H_
#define HINDSIGHT_EMULATOR_ASSIST_STRING_OPERATION_H_

#include <Zydis/Zydis.h>

#include <cstdint>

#include "emulator/assist/assist_memory.h"
#include "isa/registers.h"

namespace hindsight {

// Whether ExecuteString() knows it.
bool IsStringOperation(const ZydisDecodedInstruction& instruction);

// Executes all its iterations from registers->rip on, which moves on. False if one faults: the
// registers have not changed then, memory has, by the iterations before. Requires:
// IsStringOperation, and the direction flag is clear.
bool ExecuteString(const ZydisDecodedInstruction& instruction, RegisterFile* registers,
                   AssistMemory* memory);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_STRING_OPERATION_H_
