// Moves a recorded process along its timeline, both ways, and shows its state.
//
// The timeline is one total order of all transitions of all threads (schedule.h): slices of
// threads, one after the other. A *moment* is a place in it: the number of transitions made before.
// At a moment every thread is in one of its states; the *current* thread is the one that makes
// the next transition (at the end of the timeline: the one that made the last).
//
// Borrows the trace, which must outlive it. Not copyable, not movable. One host thread at a time;
// long searches use further threads of their own inside a call.
//
// Errors: kOutOfRange for what the recording does not have; kNotFound for a thread that does not
// live at the moment; kDataLoss where the trace is damaged or replay diverged (the message names
// thread, segment, count, position and pc); kFailedPrecondition where replay needs a host feature
// that this host lacks. After an error the timeline is where it was before the call.
//
// A diversion (a throw-away copy in which a debugger calls functions) is made by its user: a Cpu of
// its own, with registers() set and a Pager that answers from ReadMemory().

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "keyframes/state/position.h"
#include "keyframes/state/process_state.h"
#include "keyframes/state/schedule.h"
#include "keyframes/state/thread_state.h"
#include "keyframes/timeline/run_request.h"
#include "keyframes/timeline/timeline_options.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class Timeline {
 public:
  // Opens at the beginning. kNotFound if the trace holds no segment.
  static absl::StatusOr<std::unique_ptr<Timeline>> Open(const TraceReader* trace,
                                                        const TimelineOptions& options = {});
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // The present moment.
  uint64_t moment() const;
  uint64_t end_moment() const;  // moments are 0..end_moment()
  int32_t current_thread() const;
  double percent() const;  // 0 at the beginning, 100 at the end
  // Threads that live here: started at or before this moment and not ended before it; in order of
  // their start. Never empty.
  std::vector<int32_t> threads() const;
  bool IsAlive(int32_t thread) const;

  // A thread's own state. Requires: `thread` lives here.
  uint64_t count(int32_t thread) const;
  Position position(int32_t thread) const;
  Position position() const { return position(current_thread()); }
  // Replays the thread to here if need be.
  absl::StatusOr<RegisterFile> registers(int32_t thread);
  // Reads from `address` as many bytes of `out` as are known from its start, and returns how many.
  // kNotFound if the first byte is not known here (never a made-up byte). The view of `thread`
  // comes first; memory_view.h says where else bytes come from. The first read of a page that only
  // others touched may replay them; `interrupt` (polled, may be null) ends that with kCancelled.
  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address, absl::Span<uint8_t> out,
                                    const std::atomic<bool>* interrupt = nullptr);
  // Whether the page of `address` is memory of no file that nobody has touched since it was mapped:
  // that it is zeros is known from the memory map alone. False where memory is not known.
  absl::StatusOr<bool> IsUntouched(int32_t thread, uint64_t address,
                                   const std::atomic<bool>* interrupt = nullptr);

  // What is known without replay: of one thread (by its counts), of all (by moments).
  const ThreadState& thread_state(int32_t thread) const;
  const Schedule& schedule() const;
  const ProcessState& process() const;

  // Goes to a moment, or a position: a sequence number belongs to one thread, so a position names a
  // moment whichever thread it was reported for (process_state.h). kCancelled if `interrupt`
  // (polled, may be null) was raised: then it is where it was before.
  absl::Status SeekTo(uint64_t moment, const std::atomic<bool>* interrupt = nullptr);
  absl::Status SeekTo(const Position& target, const std::atomic<bool>* interrupt = nullptr);

  // The thread makes exactly one transition, forward: everything up to and including it happens.
  // Back: the last moment before the thread's last transition. False, and no move, at its ends.
  // Stepping back costs microseconds once the way back has been prepared by the first such step.
  absl::StatusOr<bool> StepForward(int32_t thread);
  absl::StatusOr<bool> StepBackward(int32_t thread);

  // Runs until something in `request` stops it; at an end of the recording returns at once.
  absl::StatusOr<RunStop> Run(const RunRequest& request);

  TimelineStatistics statistics() const;

 private:
  struct Impl;
  explicit Timeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_H_
