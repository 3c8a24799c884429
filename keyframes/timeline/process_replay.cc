#include "keyframes/timeline/process_replay.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/manifest.h"

namespace hindsight {
namespace {

// Segments kept replayed for one thread: the one stood in, its neighbour, and one more for going to
// and fro; and one for each further thread, as long as they are few.
constexpr size_t kKeptSegments = 3;
constexpr size_t kMaxKeptSegments = 12;

size_t KeptSegments(const ProcessState& process) {
  return std::min(kMaxKeptSegments, kKeptSegments + process.threads().all().size() - 1);
}

}  // namespace

ProcessReplay::ProcessReplay(const TraceReader* trace, ProcessState process,
                             const TimelineOptions& options)
    : trace_(trace),
      process_(std::move(process)),
      pool_(trace, KeptSegments(process_), options.checkpoint_bytes),
      search_(trace, options.search_threads),
      memory_(trace, &process_, this, options.view_cache_bytes),
      stores_(trace, &process_, &memory_, options.checkpoint_bytes / 8),
      parent_(trace, options),
      aside_pool_(trace, /*max_replays=*/1, options.checkpoint_bytes / 8) {}

ThreadTimeline::Context ProcessReplay::MakeContext() {
  return {.trace = trace_, .pool = &pool_, .search = &search_, .memory = &memory_, .host = this};
}

ThreadTimeline& ProcessReplay::Of(int32_t thread) {
  std::unique_ptr<ThreadTimeline>& timeline = threads_[thread];
  if (timeline == nullptr) {
    timeline = std::make_unique<ThreadTimeline>(&process_.thread(thread), MakeContext());
    if (request_of_run_ != nullptr) timeline->stops().Set(*request_of_run_);
  }
  return *timeline;
}

ThreadTimeline& ProcessReplay::ReaderOf(int32_t thread) {
  std::unique_ptr<ThreadTimeline>& timeline = readers_[thread];
  if (timeline == nullptr) {
    timeline = std::make_unique<ThreadTimeline>(&process_.thread(thread), MakeContext());
  }
  return *timeline;
}

ThreadTimeline& ProcessReplay::AsideOf(int32_t thread) {
  std::unique_ptr<ThreadTimeline>& timeline = asides_[thread];
  if (timeline == nullptr) {
    ThreadTimeline::Context context = MakeContext();
    context.pool = &aside_pool_;
    timeline = std::make_unique<ThreadTimeline>(&process_.thread(thread), context);
  }
  return *timeline;
}

absl::Status ProcessReplay::CheckAlive(int32_t thread) const {
  if (process_.threads().IsAlive(thread, moment_)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no thread ", thread, " at this position"));
}

absl::StatusOr<RegisterFile> ProcessReplay::Registers(int32_t thread) {
  RETURN_IF_ERROR(CheckAlive(thread));
  ThreadTimeline& timeline = Of(thread);
  RETURN_IF_ERROR(timeline.replay().GoToOrBeforeTurn(CountOf(thread), nullptr));
  return timeline.replay().here()->registers();
}

absl::StatusOr<size_t> ProcessReplay::ReadMemory(int32_t thread, uint64_t address,
                                                 absl::Span<uint8_t> out,
                                                 const std::atomic<bool>* interrupt) {
  RETURN_IF_ERROR(CheckAlive(thread));
  return memory_.Read(thread, moment_, address, out, interrupt);
}

absl::StatusOr<bool> ProcessReplay::IsUntouched(int32_t thread, uint64_t address,
                                                const std::atomic<bool>* interrupt) {
  RETURN_IF_ERROR(CheckAlive(thread));
  return memory_.IsUntouched(thread, moment_, address, interrupt);
}

absl::Status ProcessReplay::SeekTo(uint64_t moment, const std::atomic<bool>* interrupt) {
  if (moment > process_.end_moment()) {
    return absl::OutOfRangeError(absl::StrCat("moment ", moment, " is not in the recording (0 to ",
                                              process_.end_moment(), ")"));
  }
  const int32_t thread = schedule().ThreadAt(moment);
  RETURN_IF_ERROR(
      Of(thread).replay().GoTo(schedule().CountAt(thread, moment), /*dense=*/false, interrupt));
  moment_ = moment;
  return absl::OkStatus();
}

absl::StatusOr<bool> ProcessReplay::StepForward(int32_t thread) {
  RETURN_IF_ERROR(CheckAlive(thread));
  std::optional<WatchHit> ignored;
  ASSIGN_OR_RETURN(bool moved, Of(thread).StepForward(CountOf(thread), &ignored, nullptr));
  if (moved) moment_ = schedule().MomentTo(thread, Of(thread).count());
  return moved;
}

absl::StatusOr<bool> ProcessReplay::StepBackward(int32_t thread) {
  RETURN_IF_ERROR(CheckAlive(thread));
  std::optional<WatchHit> ignored;
  ASSIGN_OR_RETURN(bool moved, Of(thread).StepBackward(CountOf(thread), &ignored, nullptr));
  if (moved) moment_ = schedule().MomentFrom(thread, Of(thread).count());
  return moved;
}

bool ProcessReplay::Evaluate(int32_t thread, uint64_t count, bool before,
                             const StopCondition& condition) {
  const uint64_t present = std::exchange(
      moment_, before ? schedule().MomentFrom(thread, count) : schedule().MomentTo(thread, count));
  const int32_t searching = std::exchange(searching_thread_, thread);
  const bool holds = condition(thread);
  searching_thread_ = searching;
  moment_ = present;
  return holds;
}

absl::Status ProcessReplay::ReadBefore(int32_t thread, uint64_t number, uint64_t count,
                                       uint64_t page, const PageBits& wanted,
                                       absl::Span<uint8_t> out) {
  const uint64_t moment = schedule().MomentFrom(thread, count);
  return memory_.ReadBefore(thread, number, moment, page, wanted, out);
}

// The one that made the last transition before it. (One that waits in a state may begin segments at
// several keyframes there, of which it made the transition to the first at most.)
bool ProcessReplay::ComparesKeyframe(int32_t thread, uint64_t count, uint64_t keyframe) {
  const uint64_t reached = schedule().MomentTo(thread, count);
  const std::vector<Snapshot>& snapshots = process_.snapshots();
  return std::any_of(snapshots.begin(), snapshots.end(), [&](const Snapshot& snapshot) {
    return snapshot.moment == reached && snapshot.number == keyframe;
  });
}

bool ProcessReplay::ViewsMayBeOld() const {
  return RunsThreadsAtOnce(trace_->manifest()) && process_.threads().all().size() > 1;
}

absl::StatusOr<std::optional<uint64_t>> ProcessReplay::FirstOldByte(int32_t thread, uint64_t count,
                                                                    uint64_t address,
                                                                    uint64_t size) {
  const int32_t searching = std::exchange(searching_thread_, thread);
  const int32_t aside = std::exchange(aside_thread_, thread);
  auto first = CompareWithView(thread, schedule().MomentFrom(thread, count), address, size);
  searching_thread_ = searching;
  aside_thread_ = aside;
  return first;
}

absl::StatusOr<std::optional<uint64_t>> ProcessReplay::CompareWithView(int32_t thread,
                                                                       uint64_t moment,
                                                                       uint64_t address,
                                                                       uint64_t size) {
  const std::atomic<bool>* const interrupt =
      request_of_run_ == nullptr ? nullptr : request_of_run_->interrupt;
  std::vector<uint8_t> own(size), shown(size);
  ASSIGN_OR_RETURN(const SegmentReplay* const replay, ReplayAt(thread, moment, interrupt));
  if (!replay->ReadHeld(address, absl::MakeSpan(own))) return std::nullopt;
  const absl::StatusOr<size_t> read =
      memory_.ReadFew(thread, moment, address, absl::MakeSpan(shown), interrupt);
  if (absl::IsNotFound(read.status())) return std::nullopt;
  RETURN_IF_ERROR(read.status());
  for (size_t i = 0; i < *read; ++i) {
    if (own[i] != shown[i]) return address + i;
  }
  return std::nullopt;
}

absl::StatusOr<uint64_t> ProcessReplay::QuietUntil(int32_t thread, uint64_t count) {
  const std::atomic<bool>* const interrupt =
      request_of_run_ == nullptr ? nullptr : request_of_run_->interrupt;
  stores_.Watch(Of(thread).stops().plain().watchpoints);
  const uint64_t reached = schedule().MomentTo(thread, count);
  ASSIGN_OR_RETURN(const uint64_t until, stores_.QuietUntil(thread, reached, interrupt));
  if (reached != schedule().MomentFrom(thread, count)) return schedule().CountAt(thread, until);
  // It is in the middle of a slice, during which no other does anything.
  const Slice& slice = schedule().slices()[schedule().SliceAt(reached)];
  return std::max(schedule().CountAt(thread, until), slice.count + slice.length);
}

absl::StatusOr<const SegmentReplay*> ProcessReplay::ReplayAt(int32_t thread, uint64_t moment,
                                                             const std::atomic<bool>* interrupt) {
  const uint64_t count = schedule().CountAt(thread, moment);
  if (thread == aside_thread_) {
    ThreadReplay& replay = AsideOf(thread).replay();
    RETURN_IF_ERROR(replay.GoTo(count, /*dense=*/false, interrupt));
    return replay.here();
  }
  ThreadTimeline& timeline = Of(thread);
  // What its next turn begins with has not happened yet. (A search must stay where it is.)
  const size_t next = schedule().NextSliceOf(thread, moment);
  const bool waits = next < schedule().slices().size() && schedule().slices()[next].count == count;
  if (waits && thread != searching_thread_) {
    RETURN_IF_ERROR(timeline.replay().GoBeforeTurn(count, interrupt));
  } else if (thread == searching_thread_) {
    RETURN_IF_ERROR(timeline.replay().GoToOrBeforeTurn(count, interrupt));
  } else {
    RETURN_IF_ERROR(timeline.replay().GoTo(count, /*dense=*/false, interrupt));
  }
  return timeline.replay().here();
}

absl::StatusOr<ThreadTimeline*> ProcessReplay::PresentOf(int32_t thread, uint64_t moment,
                                                         const std::atomic<bool>* interrupt) {
  // One that searches must stay where it is.
  if (thread == searching_thread_) {
    ThreadTimeline& aside = AsideOf(thread);
    const uint64_t count = schedule().CountAt(thread, moment);
    RETURN_IF_ERROR(aside.replay().GoTo(count, /*dense=*/false, interrupt));
    return &aside;
  }
  RETURN_IF_ERROR(ReplayAt(thread, moment, interrupt).status());
  return &Of(thread);
}

absl::Status ProcessReplay::FindStores(int32_t thread, uint64_t from, uint64_t moment,
                                       absl::Span<StoredLine> lines,
                                       const std::atomic<bool>* interrupt) {
  constexpr uint64_t kMostSegments = 4;
  const ThreadState& state = process_.thread(thread);
  const uint64_t first = state.SegmentAt(from);
  const uint64_t last = state.SegmentAt(schedule().CountAt(thread, moment));
  if (last - first >= kMostSegments) return absl::OkStatus();
  for (uint64_t number = first; number <= last; ++number) {
    ThreadTimeline* timeline = &ReaderOf(thread);
    if (number == last) {
      ASSIGN_OR_RETURN(timeline, PresentOf(thread, moment, interrupt));
    } else {
      RETURN_IF_ERROR(timeline->replay().GoToEndOf(number, interrupt));
    }
    RETURN_IF_ERROR(timeline->FindStores(from, /*goes_on=*/number != first, lines, interrupt));
    from = timeline->replay().here()->segment().end_count();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Segment>> ProcessReplay::SegmentAt(int32_t thread,
                                                                        uint64_t moment) {
  const uint64_t count = schedule().CountAt(thread, moment);
  return trace_->LoadSegment(thread, process_.thread(thread).SegmentAt(count));
}

absl::StatusOr<std::vector<Learned>> ProcessReplay::LastKnown(int32_t thread,
                                                              std::optional<uint64_t> ended,
                                                              uint64_t moment, uint64_t page,
                                                              const PageBits& bytes, uint64_t since,
                                                              const std::atomic<bool>* interrupt) {
  ThreadTimeline* timeline = nullptr;
  if (ended.has_value()) {
    timeline = &ReaderOf(thread);
    RETURN_IF_ERROR(timeline->replay().GoToEndOf(*ended, interrupt));
  } else {
    ASSIGN_OR_RETURN(timeline, PresentOf(thread, moment, interrupt));
  }
  ASSIGN_OR_RETURN(const PageKnowledge known,
                   timeline->LastKnown(page, bytes, schedule().CountAt(thread, since),
                                       &last_writes_, interrupt));
  const bool at_once = RunsThreadsAtOnce(trace_->manifest());
  std::vector<Learned> learned(known.size());
  for (size_t i = 0; i < known.size(); ++i) {
    if (!bytes[i]) continue;
    const ByteKnowledge& byte = known[i];
    const Slice& turn = schedule().slices()[schedule().TurnIn(thread, byte.count, byte.turn)];
    const uint64_t led_to = schedule().MomentTo(thread, byte.count);
    const uint64_t from = turn.count == byte.count ? turn.moment : led_to;
    // What is imported where a turn begins was learned then, not when the one before ended.
    const bool in_turn = byte.imported && (at_once ? from <= moment : !byte.is_new);
    const uint64_t at = in_turn ? from : led_to;
    learned[i] = {std::min(at, moment), byte.count, byte.imported, byte.is_new, byte.turn};
  }
  return learned;
}

absl::Status ProcessReplay::ReadBirth(uint64_t page, absl::Span<uint8_t> out) {
  return parent_.ReadPage(page, out);
}

absl::StatusOr<bool> ProcessReplay::WasUntouchedAtBirth(uint64_t page) {
  return parent_.WasUntouched(page);
}

void ProcessReplay::SetStops(const RunRequest& request) {
  request_of_run_ = &request;
  for (auto& [thread, timeline] : threads_) {
    timeline->stops().Set(request);
    (void)timeline->stops().TakeUnknownImports();
  }
}

void ProcessReplay::ClearStops() {
  request_of_run_ = nullptr;
  pool_.ClearStops();
  for (auto& [thread, timeline] : threads_) timeline->stops().Set({});
}

std::vector<std::pair<int32_t, ThreadStops::UnknownImport>> ProcessReplay::TakeUnknownImports() {
  std::vector<std::pair<int32_t, ThreadStops::UnknownImport>> imports;
  for (const auto& [thread, timeline] : threads_) {
    for (const ThreadStops::UnknownImport& import : timeline->stops().TakeUnknownImports()) {
      imports.emplace_back(thread, import);
    }
  }
  return imports;
}

TimelineStatistics ProcessReplay::statistics() const {
  return {.checkpoints = pool_.checkpoints(),
          .checkpoint_bytes = pool_.checkpoint_bytes(),
          .states_replayed = pool_.states_replayed() + search_.states_replayed()};
}

}  // namespace hindsight
