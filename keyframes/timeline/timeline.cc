#include "keyframes/timeline/timeline.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "keyframes/timeline/timeline_impl.h"

namespace hindsight {
namespace {

// Segments kept replayed for one thread: the one stood in, its neighbour, and one more for going to
// and fro; and one for each further thread, as long as they are few.
constexpr size_t kKeptSegments = 3;
constexpr size_t kMaxKeptSegments = 12;

size_t KeptSegments(const ProcessState& process) {
  return std::min(kMaxKeptSegments, kKeptSegments + process.all_threads().size() - 1);
}

}  // namespace

Timeline::Impl::Impl(const TraceReader* trace, ProcessState process, const TimelineOptions& options)
    : trace_(trace),
      process_(std::move(process)),
      options_(options),
      pool_(trace, KeptSegments(process_), options.checkpoint_bytes),
      search_(trace, options.search_threads),
      memory_(trace, &process_, this, options.view_cache_bytes),
      unknown_(trace, &process_) {}

ThreadTimeline::Context Timeline::Impl::MakeContext() {
  return {.trace = trace_, .pool = &pool_, .search = &search_, .memory = &memory_, .host = this};
}

ThreadTimeline& Timeline::Impl::Of(int32_t thread) {
  std::unique_ptr<ThreadTimeline>& timeline = threads_[thread];
  if (timeline == nullptr) {
    timeline = std::make_unique<ThreadTimeline>(&process_.thread(thread), MakeContext());
    if (stops_ != nullptr) timeline->SetStops(*stops_);
  }
  return *timeline;
}

ThreadTimeline& Timeline::Impl::ReaderOf(int32_t thread) {
  std::unique_ptr<ThreadTimeline>& timeline = readers_[thread];
  if (timeline == nullptr) {
    timeline = std::make_unique<ThreadTimeline>(&process_.thread(thread), MakeContext());
  }
  return *timeline;
}

absl::Status Timeline::Impl::CheckAlive(int32_t thread) const {
  if (process_.HasThread(thread) && process_.IsAlive(thread, moment_)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no thread ", thread, " at this position"));
}

absl::StatusOr<RegisterFile> Timeline::Impl::Registers(int32_t thread) {
  RETURN_IF_ERROR(CheckAlive(thread));
  ThreadTimeline& timeline = Of(thread);
  RETURN_IF_ERROR(timeline.StandAt(CountOf(thread), nullptr));
  return timeline.replay()->registers();
}

absl::StatusOr<size_t> Timeline::Impl::ReadMemory(int32_t thread, uint64_t address,
                                                  absl::Span<uint8_t> out,
                                                  const std::atomic<bool>* interrupt) {
  RETURN_IF_ERROR(CheckAlive(thread));
  return memory_.Read(thread, moment_, address, out, interrupt);
}

absl::StatusOr<bool> Timeline::Impl::IsUntouched(int32_t thread, uint64_t address,
                                                 const std::atomic<bool>* interrupt) {
  RETURN_IF_ERROR(CheckAlive(thread));
  return memory_.IsUntouched(thread, moment_, address, interrupt);
}

absl::Status Timeline::Impl::SeekTo(uint64_t moment, const std::atomic<bool>* interrupt) {
  if (moment > process_.end_moment()) {
    return absl::OutOfRangeError(absl::StrCat("moment ", moment, " is not in the recording (0 to ",
                                              process_.end_moment(), ")"));
  }
  const int32_t thread = schedule().ThreadAt(moment);
  RETURN_IF_ERROR(Of(thread).GoTo(schedule().CountAt(thread, moment), /*dense=*/false, interrupt));
  moment_ = moment;
  return absl::OkStatus();
}

absl::StatusOr<bool> Timeline::Impl::StepForward(int32_t thread) {
  RETURN_IF_ERROR(CheckAlive(thread));
  std::optional<WatchHit> ignored;
  ASSIGN_OR_RETURN(bool moved, Of(thread).StepForward(CountOf(thread), &ignored, nullptr));
  if (moved) moment_ = schedule().MomentTo(thread, Of(thread).count());
  return moved;
}

absl::StatusOr<bool> Timeline::Impl::StepBackward(int32_t thread) {
  RETURN_IF_ERROR(CheckAlive(thread));
  std::optional<WatchHit> ignored;
  ASSIGN_OR_RETURN(bool moved, Of(thread).StepBackward(CountOf(thread), &ignored, nullptr));
  if (moved) moment_ = schedule().MomentFrom(thread, Of(thread).count());
  return moved;
}

bool Timeline::Impl::Holds(int32_t thread, uint64_t count, bool before,
                           const std::function<bool(int32_t)>& condition) {
  const uint64_t present = std::exchange(
      moment_, before ? schedule().MomentFrom(thread, count) : schedule().MomentTo(thread, count));
  const int32_t searching = std::exchange(searching_thread_, thread);
  const bool holds = condition(thread);
  searching_thread_ = searching;
  moment_ = present;
  return holds;
}

absl::Status Timeline::Impl::ReadBefore(int32_t thread, uint64_t number, uint64_t count,
                                        uint64_t page, absl::Span<uint8_t> out) {
  return memory_.ReadBefore(thread, number, schedule().MomentFrom(thread, count), page, out);
}

// The one that made the last transition before it. (One that waits in a state may begin segments at
// several keyframes there, of which it made the transition to the first at most.)
bool Timeline::Impl::TellsKeyframe(int32_t thread, uint64_t count, uint64_t keyframe) {
  const uint64_t reached = schedule().MomentTo(thread, count);
  const std::vector<Snapshot>& snapshots = process_.snapshots();
  return std::any_of(snapshots.begin(), snapshots.end(), [&](const Snapshot& snapshot) {
    return snapshot.moment == reached && snapshot.number == keyframe;
  });
}

absl::StatusOr<const SegmentReplay*> Timeline::Impl::StandAt(int32_t thread, uint64_t moment,
                                                             const std::atomic<bool>* interrupt) {
  const uint64_t count = schedule().CountAt(thread, moment);
  ThreadTimeline& timeline = Of(thread);
  // What its next turn begins with has not happened yet. (A search must stay where it is.)
  const size_t next = schedule().NextSliceOf(thread, moment);
  const bool waits = next < schedule().slices().size() && schedule().slices()[next].count == count;
  if (waits && thread != searching_thread_) {
    RETURN_IF_ERROR(timeline.GoBeforeTurn(count, interrupt));
  } else if (thread == searching_thread_) {
    RETURN_IF_ERROR(timeline.StandAt(count, interrupt));
  } else {
    RETURN_IF_ERROR(timeline.GoTo(count, /*dense=*/false, interrupt));
  }
  return timeline.replay();
}

absl::StatusOr<LineMoments> Timeline::Impl::LastKnown(int32_t thread, std::optional<uint64_t> ended,
                                                      uint64_t moment, uint64_t page,
                                                      uint64_t lines, uint64_t since,
                                                      const std::atomic<bool>* interrupt) {
  ThreadTimeline& timeline = ended.has_value() ? ReaderOf(thread) : Of(thread);
  if (ended.has_value()) {
    RETURN_IF_ERROR(timeline.GoToEndOf(*ended, interrupt));
  } else {
    RETURN_IF_ERROR(StandAt(thread, moment, interrupt).status());
  }
  ASSIGN_OR_RETURN(const auto known,
                   timeline.LastKnown(page, lines, schedule().CountAt(thread, since), interrupt));
  LineMoments moments = {};
  for (size_t line = 0; line < moments.size(); ++line) {
    if ((lines >> line & 1) == 0) continue;
    // What is imported where a turn begins was learned then, not when the one before ended.
    const uint64_t learned = known[line].imported ? schedule().MomentFrom(thread, known[line].count)
                                                  : schedule().MomentTo(thread, known[line].count);
    moments[line] = std::min(learned, moment);
  }
  return moments;
}

// Opens the parent's timeline where it forked.
absl::Status Timeline::Impl::OpenParent() {
  const Manifest& manifest = trace_->manifest();
  RETURN_IF_ERROR(CheckAncestry(trace_->files()));
  ASSIGN_OR_RETURN(const TraceDirectory files, trace_->files().Parent(manifest.parent_directory));
  ASSIGN_OR_RETURN(parent_trace_, TraceReader::Open(files));
  ASSIGN_OR_RETURN(std::unique_ptr<Timeline> parent, Timeline::Open(parent_trace_.get(), options_));
  if (!parent->process().HasThread(manifest.parent_thread)) {
    return absl::DataLossError(absl::StrCat(files.path(), ": has no thread that made the process"));
  }
  RETURN_IF_ERROR(
      parent->SeekTo(parent->schedule().MomentTo(manifest.parent_thread, manifest.parent_count)));
  parent_ = std::move(parent);
  return absl::OkStatus();
}

// The parent's timeline, which stands where it forked.
absl::StatusOr<Timeline*> Timeline::Impl::Parent() {
  const Manifest& manifest = trace_->manifest();
  if (manifest.parent_pid == 0 || manifest.parent_directory.empty()) {
    return absl::NotFoundError("nothing is known from before the process");
  }
  if (!std::exchange(parent_tried_, true)) parent_status_ = OpenParent();
  if (parent_ == nullptr) return absl::NotFoundError(parent_status_.message());
  return parent_.get();
}

absl::StatusOr<bool> Timeline::Impl::WasUntouchedAtBirth(uint64_t page) {
  const absl::StatusOr<Timeline*> parent = Parent();
  if (!parent.ok()) return false;
  return (*parent)->IsUntouched(trace_->manifest().parent_thread, page);
}

absl::Status Timeline::Impl::ReadBirth(uint64_t page, absl::Span<uint8_t> out) {
  ASSIGN_OR_RETURN(Timeline* const parent, Parent());
  ASSIGN_OR_RETURN(size_t size, parent->ReadMemory(trace_->manifest().parent_thread, page, out));
  return size == out.size() ? absl::OkStatus() : absl::NotFoundError("only part of a page");
}

Timeline::Statistics Timeline::Impl::statistics() const {
  return {.checkpoints = pool_.checkpoints(),
          .checkpoint_bytes = pool_.checkpoint_bytes(),
          .states_replayed = pool_.states_replayed() + search_.states_replayed()};
}

Timeline::Timeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Timeline::~Timeline() = default;

absl::StatusOr<std::unique_ptr<Timeline>> Timeline::Open(const TraceReader* trace,
                                                         const TimelineOptions& options) {
  ASSIGN_OR_RETURN(ProcessState process, ProcessState::Create(trace));
  auto impl = std::make_unique<Impl>(trace, std::move(process), options);
  RETURN_IF_ERROR(impl->SeekTo(0, nullptr));
  return std::unique_ptr<Timeline>(new Timeline(std::move(impl)));
}

uint64_t Timeline::moment() const { return impl_->moment(); }
uint64_t Timeline::end_moment() const { return impl_->process().end_moment(); }
int32_t Timeline::current_thread() const { return impl_->current(); }
double Timeline::percent() const { return impl_->process().PercentAt(moment()); }
std::vector<int32_t> Timeline::threads() const { return impl_->process().ThreadsAt(moment()); }
bool Timeline::IsAlive(int32_t thread) const { return impl_->CheckAlive(thread).ok(); }
uint64_t Timeline::count(int32_t thread) const { return impl_->CountOf(thread); }
Position Timeline::position(int32_t thread) const {
  return impl_->process().PositionAt(thread, moment());
}
const ProcessState& Timeline::process() const { return impl_->process(); }
const Schedule& Timeline::schedule() const { return impl_->schedule(); }
const ThreadState& Timeline::thread_state(int32_t thread) const {
  return impl_->process().thread(thread);
}

absl::StatusOr<RegisterFile> Timeline::registers(int32_t thread) {
  return impl_->Registers(thread);
}

absl::StatusOr<size_t> Timeline::ReadMemory(int32_t thread, uint64_t address,
                                            absl::Span<uint8_t> out,
                                            const std::atomic<bool>* interrupt) {
  return impl_->ReadMemory(thread, address, out, interrupt);
}

absl::StatusOr<bool> Timeline::IsUntouched(int32_t thread, uint64_t address,
                                           const std::atomic<bool>* interrupt) {
  return impl_->IsUntouched(thread, address, interrupt);
}

absl::Status Timeline::SeekTo(uint64_t moment, const std::atomic<bool>* interrupt) {
  impl_->ForgetTold();
  return impl_->SeekTo(moment, interrupt);
}

absl::Status Timeline::SeekTo(const Position& target, const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(uint64_t moment, impl_->process().MomentAt(target));
  return SeekTo(moment, interrupt);
}

absl::StatusOr<bool> Timeline::StepForward(int32_t thread) {
  impl_->ForgetTold();
  return impl_->StepForward(thread);
}

absl::StatusOr<bool> Timeline::StepBackward(int32_t thread) {
  impl_->ForgetTold();
  return impl_->StepBackward(thread);
}

absl::StatusOr<RunStop> Timeline::Run(const RunRequest& request) { return impl_->Run(request); }
Timeline::Statistics Timeline::statistics() const { return impl_->statistics(); }

}  // namespace hindsight
