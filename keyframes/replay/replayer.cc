#include "keyframes/replay/replayer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// At most about 20 ms of replay at 100 M states/s, so that an interrupt is seen in time.
constexpr uint64_t kPollStates = 2'000'000;
// Replay is paid for in states: about this many lie between checkpoints left as a long replay goes
// (about 30 ms of it) ...
constexpr uint64_t kCheckpointStates = 4'000'000;
// ... or more where many pages are written: a first write costs about 3 us, and that shall stay
// below a sixth of the time.
constexpr uint64_t kCheckpointStatesPerPage = 2'000;
// A watchpoint hit is found by going back to the start of the leg, so legs are kept short ...
constexpr uint64_t kWatchLegStates = 1'000'000;
// ... and begin at a checkpoint, or this near behind one: short legs, from breakpoint to
// breakpoint, shall not cost one each.
constexpr uint64_t kWatchCheckpointStates = 20'000;
// On the way back to a state, an eighth of the way left lies between checkpoints.
constexpr uint64_t kLeavingPart = 8;
// Where replaying what lies behind the last checkpoint costs less than another one, none is left:
// it costs about 2 us, and 10 us for each page that is protected and then written again.
constexpr uint64_t kLeavingStates = 1'000;
constexpr uint64_t kLeavingStatesPerPage = 1'000;
// The last states before the target of a step back get a checkpoint each.
constexpr uint64_t kDenseStates = 64;
// No basic block is longer: Unicorn ends them at 512 instructions.
constexpr int kMaxBlockInstructions = 512;
// For replays that keep no checkpoints but need some after a fault.
constexpr uint64_t kFaultCheckpointBytes = uint64_t{64} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentReplay>> SegmentReplay::Create(const TraceReader* trace,
                                                                     HostFeatures host) {
  const std::string& layout = trace->manifest().register_layout;
  if (layout != kRegisterLayout && layout != kBaseRegisterLayout) {
    return absl::UnimplementedError(
        absl::StrCat(trace->directory(), ": register layout '", layout, "' is not known"));
  }
  auto replay = std::unique_ptr<SegmentReplay>(new SegmentReplay(trace));
  ASSIGN_OR_RETURN(replay->cpu_, Cpu::Create(replay.get()));
  replay->cpu_->SetHostFeatures(UsableFor(trace->manifest().required_features, host));
  replay->checkpoints_ = std::make_unique<Checkpoints>(replay->cpu_.get());
  return replay;
}

absl::Status SegmentReplay::Load(std::shared_ptr<const Segment> segment) {
  if (segment != segment_) history_ = std::make_unique<PageHistory>(segment->records());
  segment_ = std::move(segment);
  return Restart();
}

absl::Status SegmentReplay::Restart() {
  checkpoints_->Reset();
  broken_ = false;
  before_turn_ = false;
  RegisterFile registers;
  if (!FromWords(segment_->registers(), &registers)) {
    return absl::DataLossError(absl::StrCat(segment_->info().path, ": the first register file has ",
                                            segment_->registers().size(), " words, not ",
                                            kRegisterWords));
  }
  cpu_->SetRegisters(registers);
  cpu_->set_count(segment_->info().first_count);
  cursor_ = 0;
  import_hit_ = false;
  unknown_imports_.clear();
  effort_ = 0;
  checkpoint_effort_ = kCheckpointStates;
  RETURN_IF_ERROR(Settle());
  if (holding_back_) return absl::OkStatus();
  // So that the way back to here costs the pages written only, not all imports again.
  if (max_checkpoint_bytes_ != 0) TakeCheckpoint();
  return absl::OkStatus();
}

bool SegmentReplay::ReadHeld(uint64_t address, absl::Span<uint8_t> out) const {
  // The last page may be the address space's.
  const size_t pages = history_->empty() || out.empty()
                           ? 0
                           : (address % kPageBytes + out.size() - 1) / kPageBytes + 1;
  for (size_t i = 0; i < pages; ++i) {
    if (LeftSince((address & ~(kPageBytes - 1)) + i * kPageBytes).has_value()) return false;
  }
  return cpu_->ReadHeld(address, out);
}

void SegmentReplay::SetStops(absl::flat_hash_set<uint64_t> breakpoints,
                             std::vector<Watchpoint> watchpoints) {
  if (breakpoints != breakpoints_) {
    breakpoints_ = std::move(breakpoints);
    cpu_->SetBreakpoints(breakpoints_);
  }
  if (watchpoints != watchpoints_) {
    watchpoints_ = std::move(watchpoints);
    cpu_->SetWatchpoints(watchpoints_);
  }
}

bool SegmentReplay::AtBreakpoint() {
  return breakpoints_.contains(cpu_->pc()) && !discontinuity_is_signal();
}

uint64_t SegmentReplay::NextStopCount() const {
  const Record* next = NextRecord();
  return next == nullptr ? segment_->end_count() : std::min(next->count, segment_->end_count());
}

absl::StatusOr<LegEnd> SegmentReplay::RunLeg(const LegOptions& options) {
  import_hit_ = false;
  unknown_imports_.clear();
  if (at_end()) return LegEnd::kSegmentEnd;
  if (count() >= options.limit) return LegEnd::kLimit;
  if (!TransitionIsNext()) return RunCpu(options);
  if (AtBreakpoint()) {
    if (options.trace != nullptr) {
      ++options.trace->cpu.breakpoint_hits;
      options.trace->cpu.last_breakpoint_count = count();
    } else if (!options.leave_first_breakpoint) {
      return LegEnd::kBreakpoint;
    }
  }
  RETURN_IF_ERROR(ApplyTransition());
  MaybeCheckpoint();
  return FinishLeg(LegEnd::kLimit, options);
}

// Emulates up to the next record, the limit, or the next checkpoint.
absl::StatusOr<LegEnd> SegmentReplay::RunCpu(const LegOptions& options) {
  const uint64_t start = count();
  const uint64_t next_stop = NextStopCount();
  RunOptions run;
  run.limit = std::min(options.limit, next_stop);
  if (max_checkpoint_bytes_ != 0) {
    run.limit = std::min(
        run.limit,
        start + std::max<uint64_t>(1, checkpoint_effort_ - std::min(effort_, checkpoint_effort_)));
  }
  if (options.trace == nullptr && !watchpoints_.empty()) {
    const uint64_t pages = checkpoints_->dirty_pages();
    const std::optional<uint64_t> newest = checkpoints_->NewestAtOrBefore(start);
    if (!newest.has_value() || start - *newest > kWatchCheckpointStates) TakeCheckpoint();
    run.limit =
        std::min(run.limit, start + std::max(kWatchLegStates, pages * kCheckpointStatesPerPage));
  }
  run.skip_first_breakpoint = options.leave_first_breakpoint;
  run.log_hits = options.trace == nullptr ? nullptr : &options.trace->cpu;
  refused_page_.reset();
  const HitLog log_before = options.trace == nullptr ? HitLog{} : options.trace->cpu;
  const RunResult result = cpu_->Run(run);
  LegEnd end = LegEnd::kLimit;
  switch (result.stop) {
    case Stop::kLimit:
      break;
    case Stop::kBreakpoint:
      end = LegEnd::kBreakpoint;
      break;
    case Stop::kFault: {
      // What was noted of the block that was not executed to its end may not be so.
      if (options.trace != nullptr) options.trace->cpu = log_before;
      ASSIGN_OR_RETURN(end, RecoverFromFault(result, options, start));
      break;
    }
    case Stop::kWatch:  // by the instruction at the breakpoint that was left
      watch_hit_ = {count() - 1, cpu_->hit_watchpoint(), cpu_->hit_address()};
      end = LegEnd::kWatch;
      break;
    case Stop::kSpecial:
      return DivergedAtSpecial();
  }
  states_replayed_ += count() - start;
  effort_ += count() - start;
  if (count() == next_stop) RETURN_IF_ERROR(Settle());
  MaybeCheckpoint();
  return FinishLeg(end, options);
}

// Something happened inside a basic block: a watched access, or code rewriting itself. Goes back to
// the start of that block and steps through it.
absl::StatusOr<LegEnd> SegmentReplay::RecoverFromFault(const RunResult& fault,
                                                       const LegOptions& options,
                                                       uint64_t leg_start) {
  if (checkpoints_->NewestAtOrBefore(leg_start).has_value()) {
    cursor_ = checkpoints_->Restore(leg_start);
  } else {
    RETURN_IF_ERROR(Restart());
  }
  RETURN_IF_ERROR(AdvanceTo(leg_start));
  HitTrace ignored;
  HitTrace* const trace = options.trace == nullptr ? &ignored : options.trace;
  while (count() < fault.block_count) {
    RETURN_IF_ERROR(RunLeg({.limit = fault.block_count, .trace = trace}).status());
  }
  import_hit_ = false;
  unknown_imports_.clear();
  ASSIGN_OR_RETURN(LegEnd end, StepThroughBlock(options, leg_start));
  // Where one block does this others will: do not come back further than here for them. (Where
  // records are still to be applied the state is not complete.)
  if (count() < NextStopCount()) TakeCheckpoint();
  return end;
}

absl::StatusOr<LegEnd> SegmentReplay::StepThroughBlock(const LegOptions& options,
                                                       uint64_t leg_start) {
  const uint64_t limit = std::min(options.limit, NextStopCount());
  for (int i = 0; i < kMaxBlockInstructions && count() < limit; ++i) {
    const uint64_t before = count();
    const bool leave = options.leave_first_breakpoint && before == leg_start;
    if (breakpoints_.contains(cpu_->pc()) && !leave) {
      if (options.trace == nullptr) return LegEnd::kBreakpoint;
      ++options.trace->cpu.breakpoint_hits;
      options.trace->cpu.last_breakpoint_count = before;
    }
    const std::optional<Instruction> instruction = cpu_->next();
    const RunResult step = cpu_->Step();
    if (step.stop == Stop::kFault) return DivergedAtFault(step.fault_address);
    if (step.stop == Stop::kSpecial) return DivergedAtSpecial();
    if (step.stop == Stop::kWatch) {
      watch_hit_ = {before, cpu_->hit_watchpoint(), cpu_->hit_address()};
      if (options.trace == nullptr) return LegEnd::kWatch;
      ++options.trace->cpu.watch_hits;
      options.trace->cpu.last_watch_block_count = before;
      options.trace->cpu.last_watch_block_end = before + 1;
    }
    if (!instruction.has_value() || instruction->control_flow) break;
  }
  return LegEnd::kLimit;
}

LegEnd SegmentReplay::FinishLeg(LegEnd end, const LegOptions& options) {
  if (options.trace != nullptr) {
    if (import_hit_) options.trace->import = watch_hit_;
    options.trace->unknown.insert(options.trace->unknown.end(), unknown_imports_.begin(),
                                  unknown_imports_.end());
  } else if (import_hit_) {
    return LegEnd::kWatch;
  }
  return end == LegEnd::kLimit && at_end() ? LegEnd::kSegmentEnd : end;
}

absl::Status SegmentReplay::AdvanceTo(uint64_t target, const std::atomic<bool>* interrupt) {
  HitTrace ignored;
  return AdvanceNoting(target, &ignored, interrupt);
}

// A damaged trace may say of a segment's bounds what the segment does not keep.
absl::Status SegmentReplay::OutsideSegment(uint64_t target) const {
  return absl::DataLossError(absl::StrCat(segment_->info().path, ": the segment has states ",
                                          segment_->info().first_count, " to ",
                                          segment_->end_count(), ", and not ", target));
}

absl::Status SegmentReplay::AdvanceNoting(uint64_t target, HitTrace* trace,
                                          const std::atomic<bool>* interrupt) {
  if (count() > target || target > segment_->end_count()) return OutsideSegment(target);
  while (count() < target) {
    if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) {
      return absl::CancelledError("interrupted");
    }
    const uint64_t limit = std::min(target, count() + kPollStates);
    RETURN_IF_ERROR(RunLeg({.limit = limit, .trace = trace}).status());
  }
  return absl::OkStatus();
}

// What replaying from here to `target` costs, about, in states.
uint64_t SegmentReplay::EffortTo(uint64_t target) const {
  const auto next = segment_->records().begin() + static_cast<ptrdiff_t>(cursor_);
  const auto end = std::partition_point(
      next, segment_->records().end(), [&](const Record& record) { return record.count < target; });
  return target - count() + static_cast<uint64_t>(end - next) * kTransitionStates;
}

absl::Status SegmentReplay::AdvanceLeaving(uint64_t target, const std::atomic<bool>* interrupt) {
  while (count() < target && EffortTo(target) > kLeavingStates) {
    const uint64_t part = std::max<uint64_t>(1, (target - count()) / kLeavingPart);
    RETURN_IF_ERROR(AdvanceTo(count() + part, interrupt));
    LeaveCheckpoint();
  }
  return AdvanceTo(target, interrupt);
}

absl::Status SegmentReplay::Step() {
  const uint64_t target = count() + 1;
  if (at_end()) return OutsideSegment(target);
  import_hit_ = false;
  unknown_imports_.clear();
  if (TransitionIsNext()) return ApplyTransition();
  const RunResult step = cpu_->Step();
  if (step.stop == Stop::kFault) return DivergedAtFault(step.fault_address);
  if (step.stop == Stop::kSpecial) return DivergedAtSpecial();
  CHECK(count() == target);
  ++states_replayed_;
  ++effort_;
  if (step.stop == Stop::kWatch) {
    watch_hit_ = {target - 1, cpu_->hit_watchpoint(), cpu_->hit_address()};
    import_hit_ = true;
  }
  return count() == NextStopCount() ? Settle() : absl::OkStatus();
}

absl::Status SegmentReplay::MoveTo(uint64_t target, bool dense,
                                   const std::atomic<bool>* interrupt) {
  const bool back = target < count();
  RETURN_IF_ERROR(RewindTo(target));
  if (!dense) return back ? AdvanceLeaving(target, interrupt) : AdvanceTo(target, interrupt);
  // Checkpoints halve the way left, then one stands at every state: a further step back restores
  // one of them, and only every kDenseStates steps a short way is replayed again.
  while (count() < target) {
    TakeCheckpoint();
    const uint64_t left = target - count();
    if (left <= kDenseStates) {
      RETURN_IF_ERROR(Step());
    } else {
      RETURN_IF_ERROR(AdvanceTo(count() + left / 2, interrupt));
    }
  }
  checkpoints_->Thin(max_checkpoint_bytes_ != 0 ? max_checkpoint_bytes_ : kFaultCheckpointBytes);
  return absl::OkStatus();
}

absl::Status SegmentReplay::MoveToBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt) {
  if (before_turn_ && count() == target) return absl::OkStatus();
  absl::Status status;
  if (target == segment_->info().first_count) {
    holding_back_ = true;
    status = Restart();
  } else {
    RETURN_IF_ERROR(MoveTo(target - 1, /*dense=*/false, interrupt));
    // The state after this is to be left again, and coming back here shall cost nothing.
    TakeCheckpoint();
    holding_back_ = true;
    status = Step();
  }
  holding_back_ = false;
  before_turn_ = true;
  return status;
}

absl::Status SegmentReplay::RewindTo(uint64_t target) {
  if (before_turn_) {
    const uint64_t before = std::min(target, count() - 1);
    if (count() == segment_->info().first_count ||
        !checkpoints_->NewestAtOrBefore(before).has_value()) {
      return Restart();
    }
    before_turn_ = false;
    broken_ = true;
    return RewindTo(before);
  }
  if (count() <= target && !broken_) return absl::OkStatus();
  if (!checkpoints_->NewestAtOrBefore(target).has_value()) return Restart();
  cursor_ = checkpoints_->Restore(target);
  broken_ = false;
  effort_ = 0;
  return absl::OkStatus();
}

void SegmentReplay::TakeCheckpoint() {
  if (before_turn_ || broken_) return;
  checkpoints_->Take(cursor_);
  effort_ = 0;
  checkpoints_->Thin(max_checkpoint_bytes_ != 0 ? max_checkpoint_bytes_ : kFaultCheckpointBytes);
}

void SegmentReplay::LeaveCheckpoint() {
  const uint64_t pages = checkpoints_->dirty_pages();
  if (effort_ > std::max(kLeavingStates, pages * kLeavingStatesPerPage)) TakeCheckpoint();
}

void SegmentReplay::KeepCheckpoints(uint64_t max_bytes) {
  max_checkpoint_bytes_ = max_bytes;
  checkpoints_->Thin(max_bytes);
}

void SegmentReplay::MaybeCheckpoint() {
  if (max_checkpoint_bytes_ == 0 || effort_ < checkpoint_effort_) return;
  const uint64_t pages = checkpoints_->dirty_pages();
  TakeCheckpoint();
  checkpoint_effort_ = std::max(kCheckpointStates, pages * kCheckpointStatesPerPage);
}

}  // namespace hindsight
