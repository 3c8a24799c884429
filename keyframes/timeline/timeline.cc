#include "keyframes/timeline/timeline.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "keyframes/timeline/event_stops.h"
#include "keyframes/timeline/process_replay.h"
#include "keyframes/timeline/timeline_run.h"
#include "keyframes/timeline/unknown_spans.h"

namespace hindsight {

struct Timeline::Impl {
  Impl(const TraceReader* trace, ProcessState process, const TimelineOptions& options)
      : replay(trace, std::move(process), options),
        events(&replay.process()),
        unknown(trace, &replay.process()) {}

  ProcessReplay replay;
  EventStops events;
  UnknownSpans unknown;
  // By the last run, if nothing has moved since.
  std::optional<TimelineRun::Reported> reported;
};

Timeline::Timeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Timeline::~Timeline() = default;

absl::StatusOr<std::unique_ptr<Timeline>> Timeline::Open(const TraceReader* trace,
                                                         const TimelineOptions& options) {
  ASSIGN_OR_RETURN(ProcessState process, ProcessState::Create(trace));
  auto impl = std::make_unique<Impl>(trace, std::move(process), options);
  RETURN_IF_ERROR(impl->replay.SeekTo(0, nullptr));
  return std::unique_ptr<Timeline>(new Timeline(std::move(impl)));
}

uint64_t Timeline::moment() const { return impl_->replay.moment(); }
uint64_t Timeline::end_moment() const { return impl_->replay.process().end_moment(); }
int32_t Timeline::current_thread() const { return impl_->replay.current(); }
double Timeline::percent() const { return impl_->replay.process().PercentAt(moment()); }
std::vector<int32_t> Timeline::threads() const {
  return impl_->replay.process().threads().AliveAt(moment());
}
bool Timeline::IsAlive(int32_t thread) const { return impl_->replay.CheckAlive(thread).ok(); }
uint64_t Timeline::count(int32_t thread) const { return impl_->replay.CountOf(thread); }
Position Timeline::position(int32_t thread) const {
  return impl_->replay.process().PositionAt(thread, moment());
}
const ProcessState& Timeline::process() const { return impl_->replay.process(); }
const Schedule& Timeline::schedule() const { return impl_->replay.schedule(); }
const ThreadState& Timeline::thread_state(int32_t thread) const {
  return impl_->replay.process().thread(thread);
}

absl::StatusOr<RegisterFile> Timeline::registers(int32_t thread) {
  return impl_->replay.Registers(thread);
}

absl::StatusOr<size_t> Timeline::ReadMemory(int32_t thread, uint64_t address,
                                            absl::Span<uint8_t> out,
                                            const std::atomic<bool>* interrupt) {
  return impl_->replay.ReadMemory(thread, address, out, interrupt);
}

absl::StatusOr<bool> Timeline::IsUntouched(int32_t thread, uint64_t address,
                                           const std::atomic<bool>* interrupt) {
  return impl_->replay.IsUntouched(thread, address, interrupt);
}

absl::Status Timeline::SeekTo(uint64_t moment, const std::atomic<bool>* interrupt) {
  impl_->reported.reset();
  return impl_->replay.SeekTo(moment, interrupt);
}

absl::Status Timeline::SeekTo(const Position& target, const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(uint64_t moment, impl_->replay.process().MomentAt(target));
  return SeekTo(moment, interrupt);
}

absl::StatusOr<bool> Timeline::StepForward(int32_t thread) {
  impl_->reported.reset();
  return impl_->replay.StepForward(thread);
}

absl::StatusOr<bool> Timeline::StepBackward(int32_t thread) {
  impl_->reported.reset();
  return impl_->replay.StepBackward(thread);
}

absl::StatusOr<RunStop> Timeline::Run(const RunRequest& request) {
  TimelineRun run(&impl_->replay, &impl_->events, &impl_->unknown, &request);
  return run.Go(&impl_->reported);
}

TimelineStatistics Timeline::statistics() const { return impl_->replay.statistics(); }

}  // namespace hindsight
