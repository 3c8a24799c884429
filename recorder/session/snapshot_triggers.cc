#include "recorder/session/snapshot_triggers.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "recorder/process/signal_sets.h"

namespace hindsight {

SnapshotTriggers::SnapshotTriggers(const CaptureConfiguration& capture, NamedPlaces places)
    : every_ns_(std::max<int64_t>(0, absl::ToInt64Nanoseconds(capture.every))),
      most_(capture.max_snapshots),
      places_(std::move(places)) {
  for (const int signal : capture.signals) signals_ |= uint64_t{1} << (signal - 1);
}

absl::StatusOr<std::unique_ptr<SnapshotTriggers>> SnapshotTriggers::Parse(
    const CaptureConfiguration& capture) {
  ASSIGN_OR_RETURN(NamedPlaces places, NamedPlaces::Parse(capture.functions));
  return absl::WrapUnique(new SnapshotTriggers(capture, std::move(places)));
}

std::optional<SnapshotReason> SnapshotTriggers::Due(uint64_t now_ns, uint64_t requests,
                                                    Seen* seen) const {
  const Seen now = Begin(now_ns, requests);
  const bool asked = now.requests != seen->requests;
  const bool ticked = now.ticks != seen->ticks;
  if (!asked && !ticked) return std::nullopt;
  *seen = now;
  if (IsEnough()) return std::nullopt;
  return SnapshotReason{.trigger = asked ? kOutsideTrigger : kTimerTrigger};
}

SnapshotTriggers::Seen SnapshotTriggers::Begin(uint64_t now_ns, uint64_t requests) const {
  return {.ticks = Ticks(now_ns), .requests = requests};
}

std::map<uint64_t, std::string> SnapshotTriggers::Places(pid_t thread, const AddressSpace& space) {
  return places_.Find(space.map(), thread).names;
}

SnapshotReason SnapshotTriggers::OfPoint(const Point& point) {
  return {.trigger = static_cast<uint32_t>(point.trigger),
          .level = point.level,
          .class_number = point.class_number,
          .id = point.id,
          .text = PointText(point)};
}

SnapshotReason SnapshotTriggers::OfSignal(int signal) {
  return {.trigger = kSignalTrigger,
          .id = static_cast<uint32_t>(signal),
          .text = absl::StrCat("label=", SignalName(signal), "\n")};
}

SnapshotReason SnapshotTriggers::OfPlace(const std::string& name) {
  return {.trigger = kFunctionTrigger, .text = absl::StrCat("label=", name, "\n")};
}

}  // namespace hindsight
