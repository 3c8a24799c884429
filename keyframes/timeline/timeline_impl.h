// The inside of Timeline. Only timeline*.cc include this.
//
// The timeline's place is a moment. The threads' own timelines are brought to their states when
// something is asked of them, so moving costs the replay of one thread, not of all.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_IMPL_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_IMPL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "keyframes/replay/replay_pool.h"
#include "keyframes/replay/segment_search.h"
#include "keyframes/state/process_state.h"
#include "keyframes/timeline/memory_view.h"
#include "keyframes/timeline/thread_timeline.h"
#include "keyframes/timeline/timeline.h"
#include "keyframes/timeline/unknown_spans.h"

namespace hindsight {

class Timeline::Impl final : private ThreadHost, private ThreadViews {
 public:
  Impl(const TraceReader* trace, ProcessState process, const TimelineOptions& options);

  uint64_t moment() const { return moment_; }
  int32_t current() const { return schedule().ThreadAt(moment_); }
  uint64_t CountOf(int32_t thread) const { return schedule().CountAt(thread, moment_); }
  const ProcessState& process() const { return process_; }
  const Schedule& schedule() const { return process_.schedule(); }

  absl::Status CheckAlive(int32_t thread) const;
  absl::StatusOr<RegisterFile> Registers(int32_t thread);
  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address, absl::Span<uint8_t> out,
                                    const std::atomic<bool>* interrupt);
  absl::StatusOr<bool> IsUntouched(int32_t thread, uint64_t address,
                                   const std::atomic<bool>* interrupt);
  absl::Status SeekTo(uint64_t moment, const std::atomic<bool>* interrupt);
  // What was told of the present moment counts no more.
  void ForgetTold() { told_.reset(); }
  absl::StatusOr<bool> StepForward(int32_t thread);
  absl::StatusOr<bool> StepBackward(int32_t thread);
  absl::StatusOr<RunStop> Run(const RunRequest& request);
  Statistics statistics() const;

 private:
  // Something that happens at a moment, known without replay, and stops a run there.
  struct EventStop {
    uint64_t moment = 0;
    RunStop stop;
  };
  // A thread's hit, and the moment to go to for it.
  struct FoundHit {
    uint64_t moment = 0;
    int32_t thread = 0;
    ThreadTimeline::Hit hit;
  };

  // ThreadHost and ThreadViews.
  bool Holds(int32_t thread, uint64_t count, bool before,
             const std::function<bool(int32_t)>& condition) override;
  absl::Status ReadBefore(int32_t thread, uint64_t number, uint64_t count, uint64_t page,
                          absl::Span<uint8_t> out) override;
  bool TellsKeyframe(int32_t thread, uint64_t count, uint64_t keyframe) override;
  absl::StatusOr<const SegmentReplay*> StandAt(int32_t thread, uint64_t moment,
                                               const std::atomic<bool>* interrupt) override;
  absl::StatusOr<LineMoments> LastKnown(int32_t thread, std::optional<uint64_t> ended,
                                        uint64_t moment, uint64_t page, uint64_t lines,
                                        uint64_t since,
                                        const std::atomic<bool>* interrupt) override;
  absl::Status ReadBirth(uint64_t page, absl::Span<uint8_t> out) override;
  absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t page) override;
  absl::Status OpenParent();
  absl::StatusOr<Timeline*> Parent();

  ThreadTimeline& Of(int32_t thread);
  // A second one, for looking at what earlier segments of a thread that is being searched knew.
  ThreadTimeline& ReaderOf(int32_t thread);
  ThreadTimeline::Context MakeContext();
  bool Raised(const RunRequest& request) const {
    return request.interrupt != nullptr && request.interrupt->load(std::memory_order_relaxed);
  }
  bool LooksForCode(const RunRequest& request) const {
    return !request.breakpoints.empty() || !request.watchpoints.empty();
  }
  // Threads that make transitions out of moments low..high - 1 and whose stops count, in order.
  std::vector<int32_t> ActiveThreads(const RunRequest& request, uint64_t low, uint64_t high) const;

  // Events (timeline_events.cc).
  bool Counts(const RunRequest& request, int32_t thread) const {
    return !request.only_thread || thread == RequestThread(request);
  }
  int32_t RequestThread(const RunRequest& request) const {
    return request.thread != 0 ? request.thread : run_thread_;
  }
  std::optional<RunStop> StopHere(const RunRequest& request) const;
  std::optional<EventStop> NextEventStop(const RunRequest& request, uint64_t after) const;
  std::optional<EventStop> PreviousEventStop(const RunRequest& request, uint64_t before) const;
  std::optional<EventStop> NextThreadStop(const RunRequest& request, uint64_t after) const;
  std::optional<EventStop> PreviousThreadStop(const RunRequest& request, uint64_t before) const;
  // What stops a step of `thread` into its state `count`.
  std::optional<RunStop> StopInState(const RunRequest& request, int32_t thread,
                                     uint64_t count) const;

  // Running (timeline_run.cc).
  absl::StatusOr<RunStop> RunTowards(const RunRequest& request);
  // Up to `limit`, where nothing is looked for any more; nullopt: it stands there.
  absl::StatusOr<std::optional<RunStop>> RunForwardTo(const RunRequest& request, uint64_t limit);
  absl::StatusOr<std::optional<RunStop>> SearchForward(const RunRequest& request, uint64_t limit);
  absl::StatusOr<std::optional<RunStop>> SearchWindowForward(const RunRequest& request,
                                                             uint64_t high, bool leave);
  absl::StatusOr<std::optional<RunStop>> RunBackwardTo(const RunRequest& request, uint64_t floor);
  absl::StatusOr<std::optional<RunStop>> SearchBackward(const RunRequest& request, uint64_t floor);
  absl::Status SearchWindowBackward(const RunRequest& request, uint64_t floor, uint64_t low,
                                    absl::flat_hash_map<int32_t, uint64_t>* searched,
                                    std::optional<FoundHit>* best);
  bool MayStop(const RunRequest& request, int32_t thread, uint64_t low, uint64_t high);
  std::vector<UnknownMemory> UnknownBeforeImports(const RunRequest& request, uint64_t low,
                                                  uint64_t high);
  std::vector<UnknownMemory> UnknownOnTheWay(const RunRequest& request, uint64_t low,
                                             uint64_t high);
  absl::StatusOr<RunStop> StepRange(const RunRequest& request);
  absl::StatusOr<std::optional<RunStop>> StepOnce(const RunRequest& request, int32_t thread);

  const TraceReader* const trace_;
  const ProcessState process_;
  const TimelineOptions options_;
  ReplayPool pool_;
  SegmentSearch search_;
  MemoryView memory_;
  UnknownSpans unknown_;
  absl::flat_hash_map<int32_t, std::unique_ptr<ThreadTimeline>> threads_;
  absl::flat_hash_map<int32_t, std::unique_ptr<ThreadTimeline>> readers_;
  uint64_t moment_ = 0;
  // What the last run stopped for, if nothing has moved since. Of two system calls that meet in a
  // moment, one behind and one ahead, it tells which was told of.
  struct Told {
    uint64_t moment = 0;
    StopKind kind = StopKind::kStep;
  };
  std::optional<Told> told_;
  const RunRequest* stops_ = nullptr;  // what the run that goes on looks for
  int32_t run_thread_ = 0;             // the current thread when the run began
  int32_t searching_thread_ = 0;       // whose condition is asked for
  // The trace of the process that made this one; null as long as nothing was asked of it.
  std::unique_ptr<TraceReader> parent_trace_;
  std::unique_ptr<Timeline> parent_;
  bool parent_tried_ = false;
  absl::Status parent_status_;  // why there is none
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_IMPL_H_
