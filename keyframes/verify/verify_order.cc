#include "keyframes/verify/verify_order.h"

#include <algorithm>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

uint64_t SequenceOf(const Record& record) {
  if (const auto* effect = std::get_if<SideEffect>(&record.body)) return effect->sequence;
  if (const auto* event = std::get_if<Discontinuity>(&record.body)) return event->sequence;
  return 0;
}

bool IsTransition(const Record& record) {
  return std::holds_alternative<SideEffect>(record.body) ||
         std::holds_alternative<Discontinuity>(record.body);
}

// Counts of the transitions that are records: no instructions are emulated there.
std::vector<uint64_t> RecordedTransitions(const Segment& segment) {
  std::vector<uint64_t> counts;
  for (const Record& record : segment.records()) {
    if (IsTransition(record)) counts.push_back(record.count);
  }
  return counts;
}

}  // namespace

absl::Status OrderCheck::AddSegment(const Segment& segment) {
  std::vector<Run> runs;
  const std::vector<uint64_t> transitions = RecordedTransitions(segment);
  for (const Record& record : segment.records()) {
    if (std::holds_alternative<OrderRun>(record.body)) {
      RETURN_IF_ERROR(AddOrderRun(segment, record, transitions, &runs));
    } else if (const uint64_t sequence = SequenceOf(record); sequence != 0) {
      runs.push_back({.first = sequence,
                      .thread = segment.info().thread,
                      .first_count = record.count + 1,
                      .last_count = record.count + 1});
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Run& run : runs) numbers_ += run.length;
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  return absl::OkStatus();
}

absl::Status OrderCheck::AddOrderRun(const Segment& segment, const Record& record,
                                     const std::vector<uint64_t>& transitions,
                                     std::vector<Run>* runs) {
  const auto& run = std::get<OrderRun>(record.body);
  if (run.counts.empty()) return absl::OkStatus();
  const auto bad = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(segment.info().path, ": orderable instructions of thread ",
                     segment.info().thread, " at count ", record.count, ": ", what));
  };
  if (run.counts.front() < segment.info().first_count || run.counts.back() >= record.count) {
    return bad("they are not of this part of the segment");
  }
  for (size_t i = 0; i < run.counts.size(); ++i) {
    if (i > 0 && run.counts[i] <= run.counts[i - 1]) return bad("their counts do not rise");
    if (std::binary_search(transitions.begin(), transitions.end(), run.counts[i])) {
      return bad(absl::StrCat("no instruction was emulated at count ", run.counts[i]));
    }
  }
  runs->push_back({.first = run.first_sequence,
                   .length = run.counts.size(),
                   .thread = segment.info().thread,
                   .first_count = run.counts.front() + 1,
                   .last_count = run.counts.back() + 1});
  return absl::OkStatus();
}

// Slices and the starts of threads have numbers that no record has.
void OrderCheck::AddEvents(const TraceReader& trace) {
  for (const ProcessEvent& event : trace.events()) {
    const bool is_slice = event.kind == EventKind::kSlice;
    if (event.sequence == 0 || (!is_slice && event.kind != EventKind::kThreadStart)) continue;
    runs_.push_back({.first = event.sequence,
                     .thread = event.thread,
                     .first_count = event.count,
                     .last_count = event.count,
                     .is_slice = is_slice,
                     .is_start = !is_slice});
    ++numbers_;
  }
}

absl::Status OrderCheck::CheckProcess(const TraceReader& trace) {
  std::lock_guard<std::mutex> lock(mutex_);
  AddEvents(trace);
  std::stable_sort(runs_.begin(), runs_.end(),
                   [](const Run& a, const Run& b) { return a.first < b.first; });
  return CheckRuns(trace);
}

// Of a trace that is being written, newer records were read than events: slices of these are
// missing. What has no higher number than an event has its slice, too. But a ring may have begun
// later when it had been read: then what its events begin with speaks of later instructions.
uint64_t OrderCheck::LastOrdered(const TraceReader& trace) {
  if (trace.manifest().state != TraceState::kRecording) return ~uint64_t{0};
  const TrimmedEvent* const trimmed = trace.trimmed();
  bool as_written = trimmed == nullptr;
  uint64_t last = 0;
  for (const ProcessEvent& event : trace.events()) {
    as_written |= event.kind == EventKind::kFullKeyframe && trimmed != nullptr &&
                  static_cast<uint64_t>(event.number) == trimmed->oldest_keyframe;
    if (as_written) last = std::max(last, event.sequence);
  }
  return last;
}

absl::Status OrderCheck::CheckRuns(const TraceReader& trace) const {
  const uint64_t last_ordered = LastOrdered(trace);
  absl::flat_hash_map<int32_t, uint64_t> counts;  // how far each thread has got
  const Run* slice = nullptr;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    if (run.first > last_ordered) break;
    const auto bad = [&](absl::string_view what) {
      return absl::DataLossError(absl::StrCat(trace.directory(), ": sequence number ", run.first,
                                              " of thread ", run.thread, " (count ",
                                              run.first_count, "): ", what));
    };
    if (i > 0 && run.first <= runs_[i - 1].last()) {
      return bad(absl::StrCat("thread ", runs_[i - 1].thread, " has it as well"));
    }
    uint64_t& count = counts[run.thread];
    if (run.first_count < count) return bad("an event of a later state has a lower number");
    count = run.last_count;
    if (run.is_slice) slice = &run;
    // The start of a thread lies in the slice of the one that made it.
    const std::vector<SegmentInfo>& segments = trace.segments(run.thread);
    const bool late = trace.trimmed() != nullptr && trace.trimmed()->thinned() && run.is_start &&
                      !segments.empty() && segments.front().number != 0;
    const bool starts =
        late || (!run.is_slice && run.first_count == run.last_count &&
                 (segments.empty() || segments.front().first_count == run.first_count));
    if (slice != nullptr && !starts && run.thread != slice->thread) {
      return bad(absl::StrCat("it stands in a slice of thread ", slice->thread));
    }
  }
  return absl::OkStatus();
}

}  // namespace hindsight
