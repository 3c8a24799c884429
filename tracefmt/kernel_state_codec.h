// KernelState as a message.
//
// For tracefmt's own sources.

#ifndef HINDSIGHT_TRACEFMT_KERNEL_STATE_CODEC_H_
#define HINDSIGHT_TRACEFMT_KERNEL_STATE_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "tracefmt/kernel_state.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {

void BuildKernelState(const KernelState& from, wire::KernelState::Builder to);
// `block` is of the file at `path`. kDataLoss where the message is malformed, kResourceExhausted if
// the budget does not allow it.
absl::StatusOr<KernelState> ReadKernelState(const std::string& path, const RawBlock& block,
                                            ReadBudget* budget);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_KERNEL_STATE_CODEC_H_
