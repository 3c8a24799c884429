// Replays segments of a trace on a Cpu, forward, and back to states it has been in.
//
// It is in one state of one segment: the Cpu's registers and view are those of count(), all
// records of that count but the transition are applied. Every register hash and the registers at
// the end of the segment are checked on the way; a difference is kDataLoss naming thread, segment,
// count, position of the record, pc, and what differs.
//
// What records do is RecordApplier's, when checkpoints are taken CheckpointPace's, what happens to
// watched memory WatchedMemory's. What is left here has more methods than other classes: all moves
// begin in the one state described above, and most are a few lines.
//
// Borrows the trace. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_SEGMENT_REPLAY_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_SEGMENT_REPLAY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "isa/host_features.h"
#include "keyframes/replay/checkpoint_pace.h"
#include "keyframes/replay/checkpoints.h"
#include "keyframes/replay/divergence.h"
#include "keyframes/replay/record_applier.h"
#include "keyframes/replay/watched_memory.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// States replayed between two polls of an interrupt flag: about 20 ms at 100 M states/s.
inline constexpr uint64_t kPollStates = 2'000'000;

// Why a leg of replay ended.
enum class LegEnd : uint8_t {
  kLimit,       // at the limit, or some way towards it: look at count()
  kBreakpoint,  // pc is at a breakpoint, in a state from which it will be executed
  kWatch,       // the transition just made touched a watched location: see watch_hit()
  kSegmentEnd,  // at the segment's last state
};

// Hits noted while replaying without stopping. The last ones count.
struct HitTrace {
  HitLog cpu;
  std::optional<WatchHit> import;  // by an import into a page held
  std::vector<WatchedImport> unknown;

  bool any() const { return cpu.breakpoint_hits > 0 || cpu.watch_hits > 0 || import.has_value(); }
};

// How far one leg goes, and what it does about stops. What a user's run stops for, with conditions
// and over many segments and threads, is a RunRequest (keyframes/timeline).
struct LegOptions {
  uint64_t limit = ~uint64_t{0};
  // Do not stop for a breakpoint on the state the leg starts in.
  bool leave_first_breakpoint = false;
  // Note hits here instead of stopping for them.
  HitTrace* trace = nullptr;
};

class SegmentReplay final : private Pager {
 public:
  static absl::StatusOr<std::unique_ptr<SegmentReplay>> Create(
      const TraceReader* trace, HostFeatures host = HostFeatures::OfThisHost());

  // Begins `segment`, in its first state, with the view empty but for that state's imports.
  absl::Status Load(std::shared_ptr<const Segment> segment);
  const Segment& segment() const { return *segment_; }

  uint64_t count() const { return cpu_->count(); }
  bool at_end() const { return count() >= segment_->end_count(); }
  uint64_t pc() const { return cpu_->pc(); }
  const RegisterFile& registers() { return cpu_->registers(); }
  // It is in the state count(); false after an error.
  bool sound() const { return standing_ != Standing::kNowhere; }
  bool before_turn() const { return standing_ == Standing::kBeforeTurn; }
  // A signal is delivered next: the instruction at pc is not executed from here.
  bool SignalIsNext() const { return records_->SignalIsNext(); }
  // Copies from the view; false unless every page is held and known (not left).
  bool ReadHeld(uint64_t address, absl::Span<uint8_t> out) const;
  // Pages in the view, in no particular order.
  const std::vector<uint64_t>& held_pages() const { return checkpoints_->held_pages(); }

  // Stops for RunLeg. Indices in hits refer to `watchpoints`.
  void SetStops(absl::flat_hash_set<uint64_t> breakpoints, std::vector<Watchpoint> watchpoints);
  // See Cpu::SetQuiet.
  void SetQuiet(std::vector<QuietStores> quiet) { cpu_->SetQuiet(std::move(quiet)); }
  void ClearWatchpoints() { SetStops(breakpoints_, {}); }
  // pc is at a breakpoint, and its instruction is executed next.
  bool AtBreakpoint() const { return breakpoints_.contains(pc()) && !SignalIsNext(); }
  // The watched location touched by the transition made by the last Step, or by the last one of a
  // leg that ended with kWatch.
  const std::optional<WatchHit>& watch_hit() const { return hit_; }
  // What that transition wrote of watchpoints with on_store.
  const std::vector<Watchpoints::Hit>& watched_stores() const { return cpu_->stores(); }
  // Watched pages that the last leg brought into the view (RunLeg without a trace).
  const std::vector<WatchedImport>& unknown_imports() const { return watched_.imports(); }

  // Replays up to `options.limit`, a stop, or the end of the segment; may return earlier, with
  // kLimit, where a transition or the next checkpoint lies. Always gets further unless it is there.
  absl::StatusOr<LegEnd> RunLeg(const LegOptions& options);
  // One transition. kDataLoss at the end.
  absl::Status Step() { return StepOnce(TurnImports::kApply); }
  // Replays to exactly `target`, without stops. kDataLoss unless count() <= target <= end_count().
  // kCancelled, somewhere on the way, if `interrupt` (may be null) was raised.
  absl::Status AdvanceTo(uint64_t target, const std::atomic<bool>* interrupt = nullptr);
  // The same with hits noted in `trace`.
  absl::Status AdvanceNoting(uint64_t target, HitTrace* trace, const std::atomic<bool>* interrupt);
  // As AdvanceTo, on the way back: leaves checkpoints that get denser towards `target`, so that
  // going further back from there step by step, however long the steps, replays each state a few
  // times only.
  absl::Status AdvanceLeaving(uint64_t target, const std::atomic<bool>* interrupt);

  // Goes back to a state before count(), or forward to one after it. With `dense`, checkpoints
  // are left on the way so that further steps back from there cost little.
  absl::Status MoveTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt = nullptr);
  // Goes to a state in which the thread waits for its next turn: what others have changed until
  // then, and the turn imports, is not seen yet. Only the view differs from the state MoveTo goes
  // to; from here on only MoveTo and RewindTo are of use.
  absl::Status MoveToBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt = nullptr);
  // Goes back to the newest state at or before `target` that costs no replay: a checkpoint or the
  // segment's start. Stays if count() is not after `target`.
  absl::Status RewindTo(uint64_t target);

  void TakeCheckpoint();
  // Takes one unless coming back here costs less than a checkpoint does.
  void LeaveCheckpoint();
  // From now on long replays leave checkpoints as they go, in at most `max_bytes`.
  void KeepCheckpoints(uint64_t max_bytes);
  const Checkpoints& checkpoints() const { return *checkpoints_; }

  // Transitions replayed and comparisons made since Create.
  uint64_t states_replayed() const { return states_replayed_; }
  uint64_t checks() const { return records_->checks(); }

 private:
  // What the Cpu's registers and view are.
  //
  //               MoveToBeforeTurn
  //   kState ---------------------------> kBeforeTurn
  //    ^ | ^                               |     |
  //    | | +-------------------------------+     |
  //    | |   RewindTo an earlier state or        |
  //    | |   the segment's start                 |
  //    | |                                       |
  //    | +-----------> kNowhere <----------------+   a divergence
  //    +------------------+
  //        RewindTo a checkpoint or the segment's start; Load
  enum class Standing : uint8_t {
    kState,       // those of the state count()
    kBeforeTurn,  // the same, but the view lacks what the turn begins with importing: see
                  // TurnImports
    kNowhere,     // those of no state: checkpoints cannot be taken, registers mean nothing
  };

  explicit SegmentReplay(const TraceReader* trace) : trace_(trace) {}

  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override;

  absl::Status Restart(TurnImports imports);
  absl::Status StepOnce(TurnImports imports);
  absl::Status Settle(TurnImports imports);
  absl::Status ApplyTransition(TurnImports imports);
  absl::Status OutsideSegment(uint64_t target) const;
  absl::Status Fails(absl::Status divergence);
  ReplayPlace place() const { return {*trace_, *segment_, *cpu_}; }
  void ForgetHits();
  WatchHit HitOfCpu(uint64_t count) const;

  absl::StatusOr<LegEnd> RunCpu(const LegOptions& options);
  uint64_t CpuLimit(const LegOptions& options);
  absl::StatusOr<LegEnd> RecoverFromFault(const RunResult& fault, const LegOptions& options,
                                          uint64_t leg_start);
  absl::StatusOr<LegEnd> StepThroughBlock(const LegOptions& options, uint64_t leg_start);
  LegEnd FinishLeg(LegEnd end, const LegOptions& options);
  void TakeCheckpointIfDue();

  const TraceReader* const trace_;
  std::unique_ptr<Cpu> cpu_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::shared_ptr<const Segment> segment_;
  WatchedMemory watched_;
  std::optional<RecordApplier> records_;  // always, after Create
  CheckpointPace pace_;
  Standing standing_ = Standing::kNowhere;
  std::optional<uint64_t> refused_page_;  // by the last run or step
  absl::flat_hash_set<uint64_t> breakpoints_;
  std::optional<WatchHit> hit_;
  uint64_t states_replayed_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_SEGMENT_REPLAY_H_
