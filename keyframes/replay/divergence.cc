#include "keyframes/replay/divergence.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "isa/host_features.h"
#include "keyframes/state/thread_state.h"

namespace hindsight {

absl::Status Diverged(const ReplayPlace& place, absl::string_view what) {
  const SegmentInfo& info = place.segment.info();
  const uint64_t count = place.cpu.count();
  std::string position;
  if (auto thread = ThreadState::Create(&place.trace, info.thread); thread.ok()) {
    position = absl::StrCat(", position ", ToString(thread->PositionAt(count)));
  }
  return absl::DataLossError(absl::StrFormat(
      "%s: replay of thread %d, segment %d differs at count "
      "%d%s, pc 0x%x: %s",
      info.path, info.thread, info.number, count, position, place.cpu.pc(), std::string(what)));
}

absl::Status DivergedAtFault(const ReplayPlace& place, std::optional<uint64_t> missing_page,
                             uint64_t fault_address) {
  if (missing_page.has_value()) {
    return Diverged(place, absl::StrFormat("the instruction touches page 0x%x, which the segment "
                                           "has not imported",
                                           *missing_page));
  }
  return Diverged(place, absl::StrFormat("the instruction faults (address 0x%x)", fault_address));
}

absl::Status DivergedAtSpecial(const ReplayPlace& place) {
  const std::optional<Instruction> next = place.cpu.next();
  const HostFeatures lacking = place.cpu.features_lacking();
  if (!lacking.empty() && next.has_value()) {
    // A trace from another vendor's processor names that vendor, not ours.
    std::vector<std::string> names =
        MissingFeatures(place.trace.manifest().required_features, HostFeatures::OfThisHost());
    if (names.empty()) names = lacking.Names();
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: thread %d cannot be replayed beyond count %d: %s at pc 0x%x needs %s, which this host "
        "lacks",
        place.segment.info().path, place.segment.info().thread, place.cpu.count(),
        MnemonicName(next->mnemonic), place.cpu.pc(), absl::StrJoin(names, ", ")));
  }
  return Diverged(place,
                  absl::StrCat("the trace has no side effect for the instruction ",
                               next.has_value() ? MnemonicName(next->mnemonic) : "(unreadable)"));
}

}  // namespace hindsight
