// What is known of the recorded process without replaying: threads, schedule, memory map, names,
// snapshots, how it ended; and how moments and positions correspond.
//
// It has more methods than other classes because it is one answer to many small questions: none of
// them changes anything, and all agree with each other.
//
// Borrows the trace, which must outlive it. Immutable after Create: any number of host threads may
// use it at once. Movable.

#ifndef HINDSIGHT_KEYFRAMES_STATE_PROCESS_STATE_H_
#define HINDSIGHT_KEYFRAMES_STATE_PROCESS_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "keyframes/state/event_index.h"
#include "keyframes/state/map_history.h"
#include "keyframes/state/map_sources.h"
#include "keyframes/state/position.h"
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

  const Schedule& schedule() const { return schedule_; }
  uint64_t end_moment() const { return schedule_.end_moment(); }

  // Threads. `thread` must be one of all_threads().
  const std::vector<int32_t>& all_threads() const { return order_; }  // in order of their start
  int32_t first_thread() const { return order_.front(); }
  bool HasThread(int32_t thread) const { return threads_.contains(thread); }
  const ThreadState& thread(int32_t thread) const;
  // Started at or before `moment`, and not ended before it.
  bool IsAlive(int32_t thread, uint64_t moment) const;
  std::vector<int32_t> ThreadsAt(uint64_t moment) const;
  uint64_t StartOf(int32_t thread) const;
  uint64_t EndOf(int32_t thread) const;
  // Empty if the trace does not say.
  std::string NameAt(int32_t thread, uint64_t moment) const;

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

  // The memory map; the last one known before. Empty if the trace has none. A copy: for a question
  // about it, ask RegionsAt.
  std::vector<MapRegion> MapsAt(uint64_t moment) const;
  std::shared_ptr<const RegionList> RegionsAt(uint64_t moment) const { return maps_.At(moment); }
  // Whether a map is known that is not empty.
  bool HasMapAt(uint64_t moment) const;
  // Whether the map is the same at both moments, as far as is known.
  bool SameMapAt(uint64_t one, uint64_t other) const;
  // The region `address` lies in, or null. A [stack] region reaches down as far as it may grow.
  const MapRegion* RegionAt(uint64_t moment, uint64_t address) const;

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

  const std::vector<Snapshot>& snapshots() const { return snapshots_; }
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
  struct Life {
    uint64_t start = 0;
    uint64_t end = 0;
  };

  absl::Status AddThreads();
  void AddLives();
  uint64_t StartMoment(const ThreadState& state) const;
  void AddKeyframes(MapSources* maps);
  void AddEvents(MapSources* maps);
  void AddEvent(const ProcessEvent& event, uint64_t moment, MapSources* maps);
  // The thread whose orderable event `sequence` is; 0: none.
  int32_t ThreadOfSequence(uint64_t sequence) const;
  absl::StatusOr<uint64_t> MomentIn(int32_t thread, const Position& position) const;

  const TraceReader* trace_ = nullptr;
  std::vector<int32_t> order_;
  absl::flat_hash_map<int32_t, std::unique_ptr<ThreadState>> threads_;
  absl::flat_hash_map<int32_t, Life> lives_;
  Schedule schedule_;
  EventIndex events_;
  MapHistory maps_;
  std::vector<Snapshot> snapshots_;
  std::vector<const FullKeyframe*> keyframes_;  // parallel to snapshots_
  std::vector<TimelineGap> gaps_;
  std::optional<ExitStatus> exit_status_;
  std::vector<std::string> warnings_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_PROCESS_STATE_H_
