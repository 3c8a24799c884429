// Moves a recorded thread along its timeline, both ways, and shows its state.
//
// A count names a state (tracefmt/records.h). The timeline stands in one state at a time; where one
// segment ends and the next begins in the same state it stands in the later segment.
//
// Borrows the trace, which must outlive it. Not copyable, not movable. One host thread at a time;
// long reverse searches use further threads of their own inside a call.
//
// Errors: kOutOfRange for a state that the recording does not have; kDataLoss where the trace is
// damaged or replay diverged (the message names thread, segment, count, position and pc). After an
// error the timeline stands in the state it was in before the call if that can be reached again,
// else at the beginning of its segment.
//
// A diversion (a throw-away copy in which a debugger calls functions) is made by its user: a Cpu of
// its own, with registers() set and a Pager that answers from ReadMemory().

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/registers.h"
#include "keyframes/position.h"
#include "keyframes/process_state.h"
#include "keyframes/run_request.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct TimelineOptions {
  // Page pre-images that checkpoints may hold, all segments together.
  uint64_t checkpoint_bytes = uint64_t{512} << 20;
  // Contents of earlier segments' pages kept for reading memory.
  uint64_t view_cache_bytes = uint64_t{256} << 20;
  // Host threads that search backward; 0: one per core.
  int search_threads = 0;
  // 0: the thread the recording starts with.
  int32_t thread = 0;
};

class Timeline {
 public:
  // Opens at the beginning. kNotFound if the trace holds no segment of the thread.
  static absl::StatusOr<std::unique_ptr<Timeline>> Open(const TraceReader* trace,
                                                        const TimelineOptions& options = {});
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Where it stands.
  int32_t thread() const;
  uint64_t count() const;
  Position position() const;
  double percent() const;        // 0 at the beginning, 100 at the end
  uint64_t segment() const;      // number of the segment it stands in
  uint64_t begin_count() const;  // the recording's states are begin_count()..end_count()
  uint64_t end_count() const;
  const ProcessState& process() const;

  // The state. The reference holds until the timeline moves.
  const RegisterFile& registers();
  // Reads from `address` as many bytes of `out` as are known from its start, and returns how many.
  // kNotFound if the first byte is not known at this position (never a made-up byte). See
  // memory_view.h for where bytes come from; the first read of a page that only an earlier segment
  // touched replays that segment.
  absl::StatusOr<size_t> ReadMemory(uint64_t address, absl::Span<uint8_t> out);

  // Goes to the state `target`. kCancelled if `interrupt` (polled, may be null) was raised: then it
  // stands where it was before.
  absl::Status SeekTo(uint64_t target, const std::atomic<bool>* interrupt = nullptr);
  absl::Status SeekTo(const Position& target, const std::atomic<bool>* interrupt = nullptr);

  // Exactly one state further or back. False, and no move, at the end or the beginning.
  // Stepping back costs microseconds once the way back has been prepared by the first such step.
  absl::StatusOr<bool> StepForward();
  absl::StatusOr<bool> StepBackward();

  // Runs until something in `request` stops it. At an end it says so at once.
  absl::StatusOr<RunStop> Run(const RunRequest& request);

  // What the time travel costs, for `monitor` and the benchmarks.
  struct Statistics {
    uint64_t checkpoints = 0;
    uint64_t checkpoint_bytes = 0;
    uint64_t states_replayed = 0;
  };
  Statistics statistics() const;

 private:
  class Impl;
  explicit Timeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_H_
