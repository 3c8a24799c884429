#include "keyframes/timeline.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "keyframes/thread_timeline.h"

namespace hindsight {

class Timeline::Impl {
 public:
  Impl(const TraceReader* trace, ProcessState process, const TimelineOptions& options)
      : process_(std::move(process)),
        first_(trace, &process_, process_.first_thread(),
               {.checkpoint_bytes = options.checkpoint_bytes,
                .view_cache_bytes = options.view_cache_bytes,
                .search_threads = options.search_threads}) {}
  const ProcessState process_;
  ThreadTimeline first_;
};

Timeline::Timeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Timeline::~Timeline() = default;

absl::StatusOr<std::unique_ptr<Timeline>> Timeline::Open(const TraceReader* trace,
                                                         const TimelineOptions& options) {
  ASSIGN_OR_RETURN(ProcessState process, ProcessState::Create(trace));
  auto impl = std::make_unique<Impl>(trace, std::move(process), options);
  RETURN_IF_ERROR(impl->first_.Start());
  return std::unique_ptr<Timeline>(new Timeline(std::move(impl)));
}

uint64_t Timeline::moment() const { return impl_->first_.MomentOf(impl_->first_.count()); }
uint64_t Timeline::end_moment() const { return impl_->process_.end_moment(); }
int32_t Timeline::current_thread() const { return impl_->process_.schedule().ThreadAt(moment()); }
double Timeline::percent() const { return impl_->process_.PercentAt(moment()); }
std::vector<int32_t> Timeline::threads() const { return impl_->process_.ThreadsAt(moment()); }
bool Timeline::IsAlive(int32_t thread) const { return impl_->process_.IsAlive(thread, moment()); }
uint64_t Timeline::count(int32_t thread) const { return schedule().CountAt(thread, moment()); }
Position Timeline::position(int32_t thread) const {
  return impl_->process_.PositionAt(thread, moment());
}
const ProcessState& Timeline::process() const { return impl_->process_; }
const Schedule& Timeline::schedule() const { return impl_->process_.schedule(); }
const ThreadState& Timeline::thread_state(int32_t thread) const {
  return impl_->process_.thread(thread);
}
absl::StatusOr<RegisterFile> Timeline::registers(int32_t thread) {
  return impl_->first_.here_->registers();
}

absl::StatusOr<size_t> Timeline::ReadMemory(int32_t thread, uint64_t address,
                                            absl::Span<uint8_t> out,
                                            const std::atomic<bool>* interrupt) {
  return impl_->first_.ReadMemory(address, out);
}

absl::Status Timeline::SeekTo(uint64_t target, const std::atomic<bool>* interrupt) {
  if (target > end_moment()) {
    return absl::OutOfRangeError(absl::StrCat("the recording ends at moment ", end_moment()));
  }
  return impl_->first_.GoTo(impl_->first_.state_.begin_count() + target, /*dense=*/false,
                            interrupt);
}

absl::Status Timeline::SeekTo(const Position& target, const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(uint64_t moment, impl_->process_.MomentAt(target));
  return SeekTo(moment, interrupt);
}

absl::StatusOr<bool> Timeline::StepForward(int32_t thread) { return impl_->first_.StepForward(); }
absl::StatusOr<bool> Timeline::StepBackward(int32_t thread) { return impl_->first_.StepBackward(); }
absl::StatusOr<RunStop> Timeline::Run(const RunRequest& request) {
  ASSIGN_OR_RETURN(RunStop stop, impl_->first_.Run(request));
  stop.thread = impl_->process_.first_thread();
  return stop;
}

Timeline::Statistics Timeline::statistics() const {
  Statistics statistics;
  statistics.states_replayed = impl_->first_.search_.states_replayed();
  for (const ThreadTimeline::Kept& kept : impl_->first_.kept_) {
    statistics.checkpoints += kept.replay->checkpoints().size();
    statistics.checkpoint_bytes += kept.replay->checkpoints().bytes();
    statistics.states_replayed += kept.replay->states_replayed();
  }
  return statistics;
}

}  // namespace hindsight
