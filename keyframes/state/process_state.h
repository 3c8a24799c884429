// What is known of the recorded process without replaying: threads and schedule, memory map,
// events, snapshots, how it ended; and how moments and positions correspond.
//
// Its many methods are small questions, none of which changes anything; those about threads and
// maps are asked of threads() and maps().
//
// Borrows the trace, which must outlive it. Immutable after Create: any number of host threads may
// use it at once. Movable.

#ifndef HINDSIGHT_KEYFRAMES_STATE_PROCESS_STATE_H_
#define HINDSIGHT_KEYFRAMES_STATE_PROCESS_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "keyframes/state/event_index.h"
#include "keyframes/state/map_history.h"
#include "keyframes/state/map_sources.h"
#include "keyframes/state/position.h"
#include "keyframes/state/process_threads.h"
#include "keyframes/state/schedule.h"
#include "keyframes/state/thread_state.h"
#include "tracefmt/records.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// A full keyframe, as users see it.
struct Snapshot {
  uint64_t number = 0;  // from 1
  uint64_t sequence = 0;
  uint64_t moment = 0;
  uint64_t page_count = 0;
  const ProcessEvent* event = nullptr;  // of one that was asked for; null: it was not
};

// How the process ended.
struct ExitStatus {
  int32_t wait_status = 0;  // as wait(2) reports it
  bool exited() const { return (wait_status & 0x7f) == 0; }
  int code() const { return (wait_status >> 8) & 0xff; }
  int signal() const { return wait_status & 0x7f; }
};

// Here recording was interrupted and went on later. What comes after does not follow from what
// came before. (One at the end of the timeline is where recording ended early.)
struct TimelineGap {
  uint64_t moment = 0;
  std::string reason;
};

class ProcessState {
 public:
  // kNotFound if the trace holds no segment.
  static absl::StatusOr<ProcessState> Create(const TraceReader* trace);

  const ProcessThreads& threads() const { return threads_; }
  const ThreadState& thread(int32_t thread) const { return threads_.Of(thread); }
  const Schedule& schedule() const { return threads_.schedule(); }
  uint64_t end_moment() const { return schedule().end_moment(); }

  // From here on the trace has what every thread did, and memory. Before, which lies in a ring by
  // threads only, it has some threads, and only what these saw themselves.
  uint64_t whole_moment() const { return whole_moment_; }
  bool IsWhole(uint64_t moment) const { return moment >= whole_moment_; }

  // Positions: of a thread, and of the one that makes the next transition. May load a segment.
  // A position names a moment, whichever thread is asked about: the first one at which the thread
  // that it belongs to is in that state. MomentAt gives kOutOfRange if the recording has no such
  // position.
  Position PositionAt(int32_t thread, uint64_t moment) const;
  Position PositionAt(uint64_t moment) const;
  absl::StatusOr<uint64_t> MomentAt(const Position& position) const;
  // 0..100 to a moment and back.
  uint64_t MomentAtPercent(double percent) const;
  double PercentAt(uint64_t moment) const;

  const MapHistory& maps() const { return maps_; }

  // All events but slices, in the order of their moments (for "monitor events"), and those of one
  // kind that move a thread on.
  const std::vector<TimelineEvent>& events() const { return events_.all(); }
  const NumberedEvents& signals() const { return events_.signals(); }
  const NumberedEvents& syscalls() const { return events_.syscalls(); }
  const std::vector<TimelineEvent>& execs() const { return events_.execs(); }
  const std::vector<TimelineEvent>& forks() const { return events_.forks(); }
  // The exec that led to `moment` or to one before it; null if there is none. Its text is the path
  // of the program that runs from there.
  const ProcessEvent* LastExec(uint64_t moment) const;
  uint64_t LastExecMoment(uint64_t moment) const;  // 0: there is none

  // All full keyframes, by their own numbers.
  const std::vector<Snapshot>& snapshots() const { return snapshots_; }
  // What users call snapshots: those that were asked for, numbered from 1 in their order, or, where
  // none was, all of them.
  const std::vector<Snapshot>& named_snapshots() const {
    return wanted_.empty() ? snapshots_ : wanted_;
  }
  // The newest full keyframe at or before `moment`; null if there is none.
  const FullKeyframe* KeyframeAt(uint64_t moment) const;
  const Snapshot* SnapshotAt(uint64_t moment) const;
  const std::vector<TimelineGap>& gaps() const { return gaps_; }
  // What is known of memory from before this is out of date at `moment`: the newest gap.
  uint64_t LastGapBefore(uint64_t moment) const;

  // Empty if the recording stopped before the process ended.
  const std::optional<ExitStatus>& exit_status() const { return exit_status_; }
  // Inconsistencies of the trace's events, which have been repaired.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  ProcessState(const TraceReader* trace, ProcessThreads threads, std::vector<std::string> warnings)
      : trace_(trace), threads_(std::move(threads)), warnings_(std::move(warnings)) {}

  void AddKeyframes(MapSources* maps);
  void AddEvents(MapSources* maps);
  void AddWantedSnapshot(const ProcessEvent& event);
  const Snapshot* FindKeyframe(uint64_t number) const;
  void AddEvent(const ProcessEvent& event, uint64_t moment, MapSources* maps);
  uint64_t MomentOfLost(const ProcessEvent& event) const;
  // Where the slice of that orderable event begins; 0: none has one.
  uint64_t MomentOfSlice(uint64_t sequence) const;
  int32_t ThreadOf(const ProcessEvent& event) const;
  // The thread whose orderable event `sequence` is; 0: none.
  int32_t ThreadOfSequence(uint64_t sequence) const;
  absl::StatusOr<uint64_t> MomentIn(int32_t thread, const Position& position) const;

  const TraceReader* trace_;
  ProcessThreads threads_;
  EventIndex events_;
  MapHistory maps_;
  std::vector<Snapshot> snapshots_;
  std::vector<Snapshot> wanted_;
  uint64_t wanted_count_ = 0;
  uint64_t whole_moment_ = 0;
  std::vector<const FullKeyframe*> keyframes_;  // parallel to snapshots_
  std::vector<TimelineGap> gaps_;
  std::optional<ExitStatus> exit_status_;
  std::vector<std::string> warnings_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_PROCESS_STATE_H_
