// Decides who executes a decoded instruction: Unicorn, we (assist), or the recorded process. Each
// entry is due to a finding listed in docs/emulation.md; lockstep_test and stress_test check them.

#ifndef HINDSIGHT_EMULATOR_CODE_INSTRUCTION_POLICY_H_
#define HINDSIGHT_EMULATOR_CODE_INSTRUCTION_POLICY_H_

#include <Zydis/Zydis.h>

#include "emulator/code/instruction.h"

namespace hindsight {

// `operands` has instruction.operand_count_visible entries at least.
Policy DecidePolicy(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand* operands);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CODE_INSTRUCTION_POLICY_H_
