// Replays segments of a trace on a Cpu, forward, and back to states it has been in.
//
// Stands in one state of one segment: the Cpu's registers and view are those of count(), all
// records of that count but the transition are applied. Every register hash and the registers at
// the end of the segment are checked on the way; a difference is kDataLoss naming thread, segment,
// count, position of the record, pc, and what differs.
//
// Borrows the trace. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_REPLAYER_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_REPLAYER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "isa/host_features.h"
#include "keyframes/replay/checkpoints.h"
#include "keyframes/replay/page_history.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Why a leg of replay ended.
enum class LegEnd : uint8_t {
  kLimit,       // at the limit, or some way towards it: look at count()
  kBreakpoint,  // pc is at a breakpoint, in a state from which it will be executed
  kWatch,       // the transition just made touched a watched location: see watch_hit()
  kSegmentEnd,  // at the segment's last state
};

struct WatchHit {
  uint64_t count = 0;  // the state before the transition
  size_t index = 0;    // of the watchpoint
  uint64_t address = 0;
};

// The part of a watched range that lies in `page`, as offset into the page; size 0: none.
struct WatchedPart {
  uint64_t offset = 0;
  uint64_t size = 0;
};
WatchedPart WatchedIn(uint64_t page, const Watchpoint& watchpoint);

// A page that entered the view with bytes that are watched: whether they changed since an earlier
// segment is not known here.
struct WatchedImport {
  uint64_t count = 0;  // the state in which the page came
  size_t index = 0;    // of the watchpoint
  uint64_t page = 0;
  std::string bytes;  // the watched ones of the page, as imported
  // Lines of the page that another thread had before: they are no news.
  uint64_t known_mask = 0;
  uint64_t keyframe = 0;  // number of the full keyframe whose bytes these are; 0: an import
};
// The first byte of `import` that is news and differs from `before`, which is the same part of the
// page: its offset into both.
std::optional<uint64_t> FirstNews(const WatchedImport& import, const Watchpoint& watchpoint,
                                  absl::string_view before);

// Hits noted while replaying without stopping. The last ones count.
struct HitTrace {
  HitLog cpu;
  std::optional<WatchHit> import;  // by an import into a page held
  std::vector<WatchedImport> unknown;

  bool any() const { return cpu.breakpoint_hits > 0 || cpu.watch_hits > 0 || import.has_value(); }
};

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

  // Begins `segment`: stands in its first state, with the view empty but for that state's imports.
  absl::Status Load(std::shared_ptr<const Segment> segment);
  const Segment& segment() const { return *segment_; }

  uint64_t count() const { return cpu_->count(); }
  bool at_end() const { return count() >= segment_->end_count(); }
  uint64_t pc() const { return cpu_->pc(); }
  const RegisterFile& registers() { return cpu_->registers(); }
  // The transition recorded at count(): null where the instruction at pc is emulated.
  const SideEffect* side_effect() const;
  const Discontinuity* discontinuity() const;
  // A signal is delivered next: the instruction at pc is not executed from here.
  bool discontinuity_is_signal() const;
  // Copies from the view; false unless every page is held and known (not left).
  bool ReadHeld(uint64_t address, absl::Span<uint8_t> out) const;
  // If the view has the page, but what it holds is not known any more (PageLeft): the state since
  // which that is so.
  std::optional<uint64_t> LeftSince(uint64_t page) const {
    return history_->LeftSince(page, cursor_);
  }
  // Pages in the view, in no particular order.
  const std::vector<uint64_t>& held_pages() const { return checkpoints_->held_pages(); }

  // Stops for RunLeg. Indices in hits refer to `watchpoints`.
  void SetStops(absl::flat_hash_set<uint64_t> breakpoints, std::vector<Watchpoint> watchpoints);
  const absl::flat_hash_set<uint64_t>& breakpoints() const { return breakpoints_; }
  const WatchHit& watch_hit() const { return watch_hit_; }
  // The transition made by the last Step touched a watched location: see watch_hit().
  bool step_hit_watch() const { return import_hit_; }
  // pc is at a breakpoint that counts in this state.
  bool AtBreakpoint();
  // Watched pages that the last leg brought into the view (RunLeg without a trace).
  const std::vector<WatchedImport>& unknown_imports() const { return unknown_imports_; }

  // Replays up to `options.limit`, a stop, or the end of the segment; may return earlier, with
  // kLimit, where a transition or the next checkpoint lies. Always gets further unless it is there.
  absl::StatusOr<LegEnd> RunLeg(const LegOptions& options);
  // Replays to exactly `target`, without stops. kDataLoss unless count() <= target <= end_count().
  // kCancelled, somewhere on the way, if `interrupt` (may be null) was raised.
  absl::Status AdvanceTo(uint64_t target, const std::atomic<bool>* interrupt = nullptr);
  // The same with hits noted in `trace`.
  absl::Status AdvanceNoting(uint64_t target, HitTrace* trace, const std::atomic<bool>* interrupt);
  // As AdvanceTo, on the way back: leaves checkpoints that get denser towards `target`, so that who
  // goes back from there step by step, however long the steps, replays each state a few times only.
  absl::Status AdvanceLeaving(uint64_t target, const std::atomic<bool>* interrupt);
  // One transition. kDataLoss at the end.
  absl::Status Step();

  // Goes back to a state before count(), or forward to one behind it. With `dense`, checkpoints
  // are left on the way so that further steps back from there cost little.
  absl::Status MoveTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt = nullptr);
  // Goes to a state in which the thread waits for its next turn: what others have changed until
  // then, and the turn imports, is not seen yet. Only the view differs from the state MoveTo goes
  // to; from here on only MoveTo and RewindTo are of use.
  absl::Status MoveToBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt = nullptr);
  bool before_turn() const { return before_turn_; }
  // It stands in the state count() says; false after an error.
  bool sound() const { return !broken_; }
  // Goes back to the newest state at or before `target` that costs no replay: a checkpoint or the
  // segment's start. Stays if count() is not behind `target`.
  absl::Status RewindTo(uint64_t target);
  void TakeCheckpoint();
  // Takes one unless coming back here costs less than a checkpoint does.
  void LeaveCheckpoint();
  // From now on long replays leave checkpoints as they go, in at most `max_bytes`.
  void KeepCheckpoints(uint64_t max_bytes);
  const Checkpoints& checkpoints() const { return *checkpoints_; }

  // Transitions replayed and comparisons made since Create.
  uint64_t states_replayed() const { return states_replayed_; }
  uint64_t checks() const { return checks_; }

 private:
  // What a transition from the trace costs: about 1.6 us.
  static constexpr uint64_t kTransitionStates = 200;

  explicit SegmentReplay(const TraceReader* trace) : trace_(trace) {}

  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override;

  absl::Status Restart();
  const Record* NextRecord() const;
  bool TransitionIsNext() const;
  uint64_t NextStopCount() const;
  uint64_t EffortTo(uint64_t target) const;
  absl::Status Settle();
  absl::Status ApplyPage(const PageImport& import);
  absl::Status ApplyLine(const LineImport& import);
  absl::Status ApplyUncached(const UncachedRead& read);
  absl::Status ApplyTransition();
  absl::Status CheckHash(uint64_t expected);
  absl::Status CheckEnd(const RegisterWords& recorded);
  absl::Status OutsideSegment(uint64_t target) const;
  // `known_mask`: lines of the page that are no news, see PageImport.
  void ChangeBytes(uint64_t address, absl::Span<const uint8_t> bytes, uint64_t known_mask = 0);
  void NoteWatchedChange(uint64_t address, const uint8_t* before, absl::Span<const uint8_t> after,
                         uint64_t known_mask);
  void NoteWatchedPage(uint64_t page, uint64_t known_mask);

  absl::StatusOr<LegEnd> RunCpu(const LegOptions& options);
  absl::StatusOr<LegEnd> RecoverFromFault(const RunResult& fault, const LegOptions& options,
                                          uint64_t leg_start);
  absl::StatusOr<LegEnd> StepThroughBlock(const LegOptions& options, uint64_t leg_start);
  LegEnd FinishLeg(LegEnd end, const LegOptions& options);
  void MaybeCheckpoint();
  absl::Status Diverged(absl::string_view what);
  absl::Status DivergedAtFault(uint64_t fault_address);
  absl::Status DivergedAtSpecial();

  const TraceReader* const trace_;
  std::unique_ptr<Cpu> cpu_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::shared_ptr<const Segment> segment_;
  std::unique_ptr<const PageHistory> history_ = std::make_unique<PageHistory>();
  size_t cursor_ = 0;                     // the first record not applied
  bool broken_ = false;                   // an error left the Cpu in no recorded state
  bool holding_back_ = false;             // known lines are not applied now
  bool before_turn_ = false;              // some were not: the view is that of no recorded state
  std::optional<uint64_t> refused_page_;  // by the last run or step

  absl::flat_hash_set<uint64_t> breakpoints_;
  std::vector<Watchpoint> watchpoints_;
  WatchHit watch_hit_;
  bool import_hit_ = false;  // watch_hit_ is of the transition just made
  std::vector<WatchedImport> unknown_imports_;

  uint64_t max_checkpoint_bytes_ = 0;  // 0: no checkpoints as it goes
  uint64_t effort_ = 0;                // spent since the last checkpoint, in states
  uint64_t checkpoint_effort_ = 0;     // after which the next one is due
  uint64_t states_replayed_ = 0;
  uint64_t checks_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_REPLAYER_H_
