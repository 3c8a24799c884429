// Which decoded instructions Unicorn may run. Every entry is a finding listed, with the measurement
// behind it, in docs/emulation.md; lockstep_test and stress_test keep the list honest.

#ifndef HINDSIGHT_EMULATOR_CPU_EMULATION_POLICY_H_
#define HINDSIGHT_EMULATOR_CPU_EMULATION_POLICY_H_

#include <Zydis/Zydis.h>

#include "emulator/cpu/instruction.h"

namespace hindsight {

// `operands` has instruction.operand_count_visible entries at least.
Policy DecidePolicy(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand* operands);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_EMULATION_POLICY_H_
