// Instructions that Unicorn lacks or computes differently, and that we compute ourselves: functions
// of registers and memory like any other, so that nothing need be recorded for them.
//
// These are the few that are short to say in C++; most are run on the host's processor instead
// (native_assist.h). Both together: assistant.h.

#ifndef HINDSIGHT_EMULATOR_ASSIST_ASSIST_H_
#define HINDSIGHT_EMULATOR_ASSIST_ASSIST_H_

#include <Zydis/Zydis.h>

#include "emulator/assist/assist_memory.h"
#include "isa/registers.h"

namespace hindsight {

// Whether Assist() knows the instruction.
bool IsAssisted(const ZydisDecodedInstruction& instruction);

// Executes the instruction at registers->rip, which moves on. False, and nothing changed, if it
// faults. Requires: IsAssisted.
bool Assist(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
            RegisterFile* registers, AssistMemory* memory);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_ASSIST_H_
