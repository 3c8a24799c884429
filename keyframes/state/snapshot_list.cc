#include "keyframes/state/snapshot_list.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/printable.h"

namespace hindsight {
namespace {

constexpr EventKind kSnapshotEvent{17};

uint64_t Argument(const ProcessEvent& event, size_t index) {
  return index < event.arguments.size() ? event.arguments[index] : 0;
}

// Lines "label=LABEL" and "KEY=VALUE".
void AddText(const std::string& text, SnapshotInfo* snapshot) {
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::pair<std::string, std::string> pair = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (pair.first == "label" && snapshot->label.empty()) {
      snapshot->label = std::move(pair.second);
    } else {
      snapshot->attributes.push_back(std::move(pair));
    }
  }
}

}  // namespace

SnapshotInfo DescribeSnapshot(const ProcessEvent& event, uint64_t number) {
  SnapshotInfo snapshot = {
      .number = number,
      .time_ns = Argument(event, 0),
      .trigger = Argument(event, 1),
      .level = static_cast<int64_t>(Argument(event, 2)),
      .class_number = Argument(event, 3),
      .id = Argument(event, 4),
      .skew_ns = Argument(event, 5),
      .stop_ns = Argument(event, 6),
      .stored_bytes = Argument(event, 7),
      .arrivals = Argument(event, 8),
      .thread = event.thread,
  };
  AddText(event.text, &snapshot);
  return snapshot;
}

bool IsSnapshotTrace(const TraceReader& trace) {
  return trace.manifest().engine == kSnapshotEngine ||
         (trace.threads().empty() && !trace.full_keyframes().empty());
}

bool HasSnapshots(const TraceReader& trace) {
  const std::vector<ProcessEvent>& events = trace.events();
  return IsSnapshotTrace(trace) ||
         std::any_of(events.begin(), events.end(),
                     [](const ProcessEvent& event) { return event.kind == kSnapshotEvent; });
}

std::vector<SnapshotInfo> ListSnapshots(const TraceReader& trace) {
  std::map<uint64_t, SnapshotInfo> described;  // by the keyframe's number
  uint64_t wanted = 0;
  for (const ProcessEvent& event : trace.events()) {
    if (event.kind != kSnapshotEvent) continue;
    const auto keyframe = static_cast<uint64_t>(event.number);
    described[keyframe] = DescribeSnapshot(event, IsSnapshotTrace(trace) ? keyframe : ++wanted);
  }
  // Of a recording with segments only what was asked for.
  const bool all = described.empty() || IsSnapshotTrace(trace);
  std::vector<SnapshotInfo> snapshots;
  for (const auto& keyframe : trace.full_keyframes()) {
    const auto known = described.find(keyframe->number());
    if (known == described.end() && (!all || keyframe->threads().empty())) continue;
    SnapshotInfo& snapshot = snapshots.emplace_back();
    snapshot.number = keyframe->number();
    if (known != described.end()) snapshot = known->second;
    snapshot.keyframe = keyframe;
  }
  return snapshots;
}

absl::StatusOr<size_t> FindSnapshot(const std::vector<SnapshotInfo>& snapshots,
                                    absl::string_view where) {
  where = absl::StripAsciiWhitespace(where);
  if (snapshots.empty()) return absl::InvalidArgumentError("there are no snapshots");
  if (where == "start") return size_t{0};
  if (where == "end") return snapshots.size() - 1;
  if (absl::ConsumePrefix(&where, "snapshot")) where = absl::StripAsciiWhitespace(where);
  uint64_t number = 0;
  if (!absl::SimpleAtoi(where, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", where, "' is no snapshot: its number, start or end is expected"));
  }
  for (size_t i = 0; i < snapshots.size(); ++i) {
    if (snapshots[i].number == number) return i;
  }
  return absl::InvalidArgumentError(absl::StrCat("no snapshot ", number));
}

std::string TriggerName(uint64_t trigger) {
  static constexpr const char* kNames[] = {"unknown",   "call",   "point", "condition", "assertion",
                                           "exception", "signal", "timer", "function",  "request"};
  return trigger < std::size(kNames) ? kNames[trigger] : absl::StrCat(trigger);
}

std::string SnapshotText(const SnapshotInfo& snapshot) {
  std::string text =
      absl::StrFormat("%d: %.6f s, thread %d, %s", snapshot.number, snapshot.time_ns / 1e9,
                      snapshot.thread, TriggerName(snapshot.trigger));
  if (snapshot.level != 0 || snapshot.class_number != 0 || snapshot.id != 0) {
    absl::StrAppend(&text, " ", snapshot.level, "/", snapshot.class_number, "/", snapshot.id);
  }
  if (!snapshot.label.empty()) absl::StrAppend(&text, ", ", Printable(snapshot.label));
  for (const auto& [key, value] : snapshot.attributes) {
    absl::StrAppend(&text, ", ", Printable(absl::StrCat(key, "=", value)));
  }
  return text;
}

}  // namespace hindsight
