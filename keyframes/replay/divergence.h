// Errors of a replay that differs from what was recorded: kDataLoss naming thread, segment, count,
// position, pc, and what differs.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_DIVERGENCE_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_DIVERGENCE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "emulator/cpu/cpu.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// The state that a replay is in.
struct ReplayPlace {
  const TraceReader& trace;
  const Segment& segment;
  Cpu& cpu;
};

absl::Status Diverged(const ReplayPlace& place, absl::string_view what);
// The next instruction faults. `missing_page`: because it touches a page the view does not have.
absl::Status DivergedAtFault(const ReplayPlace& place, std::optional<uint64_t> missing_page,
                             uint64_t fault_address);
// The next instruction cannot be emulated, and the trace does not say what it did.
// kFailedPrecondition where that is because this host lacks a feature.
absl::Status DivergedAtSpecial(const ReplayPlace& place);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_DIVERGENCE_H_
