// The bytes with which the host runs one planned instruction.
//
// The guest's own bytes never reach the host's processor: the instruction is encoded anew from its
// decoded fields, and the result is decoded again and must be the instruction of the plan, with
// nothing but the stub's memory operand, no segment, no 32-bit address and no prefix of its own.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_ASSIST_CODE_H_
#define HINDSIGHT_EMULATOR_ASSIST_ASSIST_CODE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "emulator/assist/assist_plan.h"

namespace hindsight {

// nullopt: there is no such encoding; the process itself must execute the instruction. Requires:
// neither a gather nor a scatter.
std::optional<std::vector<uint8_t>> EncodeForHost(const AssistPlan& plan);

// Whether `code` is exactly the planned instruction, with memory only where plan.memory_register
// points to, and rsp only by its stand-in.
bool IsAsPlanned(const AssistPlan& plan, absl::Span<const uint8_t> code);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_ASSIST_CODE_H_
