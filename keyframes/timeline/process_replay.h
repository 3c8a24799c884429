// The replays of all threads of a process, and its memory, at one moment.
//
// Being at a moment costs nothing: a thread's own timeline is brought to its state when it is asked
// something, so moving costs the replay of one thread, not of all.
//
// Twelve of its methods answer questions of its parts: of threads that search (ThreadHost), and of
// the memory view (ThreadViews).
//
// Borrows the trace. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_PROCESS_REPLAY_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_PROCESS_REPLAY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "keyframes/memory/memory_view.h"
#include "keyframes/replay/replay_pool.h"
#include "keyframes/replay/segment_search.h"
#include "keyframes/state/process_state.h"
#include "keyframes/timeline/parent_memory.h"
#include "keyframes/timeline/run_request.h"
#include "keyframes/timeline/store_log.h"
#include "keyframes/timeline/thread_timeline.h"
#include "keyframes/timeline/timeline_options.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ProcessReplay final : private ThreadHost, private ThreadViews {
 public:
  ProcessReplay(const TraceReader* trace, ProcessState process, const TimelineOptions& options);
  ProcessReplay(const ProcessReplay&) = delete;
  ProcessReplay& operator=(const ProcessReplay&) = delete;

  const TraceReader& trace() const { return *trace_; }
  const ProcessState& process() const { return process_; }
  const Schedule& schedule() const { return process_.schedule(); }

  // The present moment.
  uint64_t moment() const { return moment_; }
  void set_moment(uint64_t moment) { moment_ = moment; }
  // The thread that makes the next transition, and the state of each.
  int32_t current() const { return schedule().ThreadAt(moment_); }
  uint64_t CountOf(int32_t thread) const { return schedule().CountAt(thread, moment_); }
  absl::Status CheckAlive(int32_t thread) const;

  absl::StatusOr<RegisterFile> Registers(int32_t thread);
  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address, absl::Span<uint8_t> out,
                                    const std::atomic<bool>* interrupt);
  absl::StatusOr<bool> IsUntouched(int32_t thread, uint64_t address,
                                   const std::atomic<bool>* interrupt);
  MemoryView& memory() { return memory_; }

  // Goes there, and brings the thread that runs there to its state.
  absl::Status SeekTo(uint64_t moment, const std::atomic<bool>* interrupt);
  absl::StatusOr<bool> StepForward(int32_t thread);
  absl::StatusOr<bool> StepBackward(int32_t thread);

  // Runs. All threads look for the stops of `request`, which is borrowed, until ClearStops.
  void SetStops(const RunRequest& request);
  void ClearStops();
  // Removes the stops of all replays: their translations stay valid for other moves.
  void ClearReplayStops() { pool_.ClearStops(); }
  ThreadTimeline& Of(int32_t thread);
  // Watched memory that threads imported without its having been known, since SetStops.
  std::vector<std::pair<int32_t, ThreadStops::UnknownImport>> TakeUnknownImports();

  TimelineStatistics statistics() const;

 private:
  // ThreadHost and ThreadViews.
  bool Evaluate(int32_t thread, uint64_t count, bool before,
                const StopCondition& condition) override;
  absl::Status ReadBefore(int32_t thread, uint64_t number, uint64_t count, uint64_t page,
                          const PageBits& wanted, absl::Span<uint8_t> out) override;
  bool ComparesKeyframe(int32_t thread, uint64_t count, uint64_t keyframe) override;
  bool ViewsMayBeOld() const override;
  absl::StatusOr<std::optional<uint64_t>> FirstOldByte(int32_t thread, uint64_t count,
                                                       uint64_t address, uint64_t size) override;
  absl::StatusOr<uint64_t> QuietUntil(int32_t thread, uint64_t count) override;
  absl::StatusOr<const SegmentReplay*> ReplayAt(int32_t thread, uint64_t moment,
                                                const std::atomic<bool>* interrupt) override;
  absl::StatusOr<std::vector<Learned>> LastKnown(int32_t thread, std::optional<uint64_t> ended,
                                                 uint64_t moment, uint64_t page,
                                                 const PageBits& bytes, uint64_t since,
                                                 const std::atomic<bool>* interrupt) override;
  absl::StatusOr<std::shared_ptr<const Segment>> SegmentAt(int32_t thread,
                                                           uint64_t moment) override;
  absl::Status FindStores(int32_t thread, uint64_t from, uint64_t moment,
                          absl::Span<StoredLine> lines,
                          const std::atomic<bool>* interrupt) override;
  absl::Status ReadBirth(uint64_t page, absl::Span<uint8_t> out) override;
  absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t page) override;

  // That of a thread in its present segment, in its state at `moment`: aside, if it searches.
  absl::StatusOr<ThreadTimeline*> PresentOf(int32_t thread, uint64_t moment,
                                            const std::atomic<bool>* interrupt);
  // A second one, for looking at what earlier segments of a thread that is being searched knew.
  ThreadTimeline& ReaderOf(int32_t thread);
  // A third one, for its present segment while that is being searched.
  ThreadTimeline& AsideOf(int32_t thread);
  ThreadTimeline::Context MakeContext();
  absl::StatusOr<std::optional<uint64_t>> CompareWithView(int32_t thread, uint64_t moment,
                                                          uint64_t address, uint64_t size);

  const TraceReader* const trace_;
  const ProcessState process_;
  ReplayPool pool_;
  SegmentSearch search_;
  MemoryView memory_;
  StoreLog stores_;
  LastWrites last_writes_;
  ParentMemory parent_;
  absl::flat_hash_map<int32_t, std::unique_ptr<ThreadTimeline>> threads_;
  absl::flat_hash_map<int32_t, std::unique_ptr<ThreadTimeline>> readers_;
  ReplayPool aside_pool_;  // a pool has a segment's replay once
  absl::flat_hash_map<int32_t, std::unique_ptr<ThreadTimeline>> asides_;
  uint64_t moment_ = 0;
  const RunRequest* request_of_run_ = nullptr;  // null: no run is going on
  int32_t searching_thread_ = 0;                // whose condition is being evaluated
  int32_t aside_thread_ = 0;                    // whose states are gone to aside
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_PROCESS_REPLAY_H_
