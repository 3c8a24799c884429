// What is known of the recorded process without replaying: events, memory map, signals, snapshots,
// and how positions and counts correspond.
//
// For one thread. Borrows the trace, which must outlive it. Immutable after Create: any number of
// host threads may use it at once. Movable.

#ifndef HINDSIGHT_KEYFRAMES_PROCESS_STATE_H_
#define HINDSIGHT_KEYFRAMES_PROCESS_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keyframes/position.h"
#include "tracefmt/records.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// A full keyframe, as users see it.
struct Snapshot {
  uint64_t number = 0;  // from 1
  uint64_t sequence = 0;
  uint64_t count = 0;
  uint64_t segment = 0;  // the segment that starts there
  uint64_t page_count = 0;
};

// How the process ended.
struct ExitStatus {
  int32_t wait_status = 0;  // as wait(2) reports it
  bool exited() const { return (wait_status & 0x7f) == 0; }
  int code() const { return (wait_status >> 8) & 0xff; }
  int signal() const { return wait_status & 0x7f; }
};

class ProcessState {
 public:
  // `thread` 0: the thread the recording starts with. kNotFound if the trace has no segment of it.
  static absl::StatusOr<ProcessState> Create(const TraceReader* trace, int32_t thread = 0);

  int32_t thread() const { return thread_; }
  uint64_t begin_count() const { return begin_count_; }
  uint64_t end_count() const { return end_count_; }  // the last state that replay can reach
  // Number of the segment a state belongs to: the later one where two meet.
  // Requires: begin_count() <= count <= end_count().
  uint64_t SegmentAt(uint64_t count) const;

  // Positions and counts. PositionAt never fails; CountAt gives kOutOfRange if the recording has no
  // such position.
  Position PositionAt(uint64_t count) const;
  absl::StatusOr<uint64_t> CountAt(const Position& position) const;
  // 0..100 to a count and back.
  uint64_t CountAtPercent(double percent) const;
  double PercentAt(uint64_t count) const;

  // The memory map in the state `count`; the last one known before it. Empty if the trace has none.
  const std::vector<MapRegion>& MapsAt(uint64_t count) const;
  // The region `address` lies in, or null. A [stack] region reaches down as far as it may grow.
  const MapRegion* RegionAt(uint64_t count, uint64_t address) const;

  // Events of the thread and of the process, in order of their counts (for "monitor events").
  const std::vector<const ProcessEvent*>& events() const { return events_; }
  // The signal delivered by the transition out of the state `count`, or null.
  const ProcessEvent* SignalFrom(uint64_t count) const;
  // The signal last reported at or before `count` (for siginfo after a stop), or null.
  const ProcessEvent* LastSignal(uint64_t count) const;
  // The exec that led to the state `count` or to one before it, or to the nearest one behind it;
  // null if there is none. Its text is the path of the program that runs from there.
  const ProcessEvent* LastExec(uint64_t count) const;
  const ProcessEvent* NextExec(uint64_t count) const;
  // The system call made by the transition out of the state `count`, or null.
  const ProcessEvent* SyscallFrom(uint64_t count) const;

  // The nearest signal or system call event whose transition starts in a state >= `count`, or
  // < `count`; null at the ends. Walk on with the event's count (>=) or count - 1 (<).
  const ProcessEvent* NextSignal(uint64_t count) const;
  const ProcessEvent* PreviousSignal(uint64_t count) const;
  const ProcessEvent* NextSyscall(uint64_t count) const;
  const ProcessEvent* PreviousSyscall(uint64_t count) const;

  const std::vector<Snapshot>& snapshots() const { return snapshots_; }
  // The newest full keyframe at or before `count`; null if there is none.
  const FullKeyframe* KeyframeAt(uint64_t count) const;

  // Empty if the recording stopped before the process ended.
  const std::optional<ExitStatus>& exit_status() const { return exit_status_; }

 private:
  struct SequencePoint {
    uint64_t sequence = 0;
    uint64_t count = 0;  // the state the event led to
  };
  struct MapChange {
    uint64_t count = 0;
    const std::vector<MapRegion>* maps = nullptr;
  };

  void AddEvents();
  void AddKeyframes();

  const TraceReader* trace_ = nullptr;
  int32_t thread_ = 0;
  uint64_t begin_count_ = 0;
  uint64_t end_count_ = 0;
  std::vector<const ProcessEvent*> events_;
  std::vector<const ProcessEvent*> signals_;   // ascending counts
  std::vector<const ProcessEvent*> syscalls_;  // ascending counts
  std::vector<const ProcessEvent*> execs_;     // ascending counts
  std::vector<SequencePoint> points_;          // ascending in both
  std::vector<MapChange> maps_;                // ascending counts
  std::vector<Snapshot> snapshots_;
  std::vector<const FullKeyframe*> keyframes_;  // parallel to snapshots_
  std::optional<ExitStatus> exit_status_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_PROCESS_STATE_H_
