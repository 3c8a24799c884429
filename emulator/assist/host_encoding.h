// Re-encodes one planned instruction (host_plan.h) for the host's processor.
//
// The guest's own bytes never reach the host's processor: the instruction is encoded again from its
// decoded fields. The result is decoded again and must be the instruction of the plan, with no
// memory operand but the stub's, no segment, no 32-bit address and no extra prefix.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_HOST_ENCODING_H_
#define HINDSIGHT_EMULATOR_ASSIST_HOST_ENCODING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "emulator/assist/host_plan.h"

namespace hindsight {

// nullopt: it cannot be encoded; the process itself must execute the instruction. Requires: neither
// a gather nor a scatter.
std::optional<std::vector<uint8_t>> EncodeForHost(const HostPlan& plan);

// Whether `code` is exactly the planned instruction, with memory only where plan.memory_register
// points, and with rsp only through its stand-in.
bool IsAsPlanned(const HostPlan& plan, absl::Span<const uint8_t> code);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_HOST_ENCODING_H_
