#include "keyframes/replay/segment_replay.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// A watchpoint hit is found by going back to the start of the leg, so legs are kept short ...
constexpr uint64_t kWatchLegStates = 1'000'000;
// ... and grow where many pages are written, as a checkpoint costs more there ...
constexpr uint64_t kWatchLegStatesPerPage = 2'000;
// ... and begin at a checkpoint, or this close after one: short legs, from breakpoint to
// breakpoint, must not cost one each.
constexpr uint64_t kWatchCheckpointStates = 20'000;
// On the way back to a state, an eighth of the way left lies between checkpoints.
constexpr uint64_t kLeavingPart = 8;
// The last states before the target of a step back get a checkpoint each.
constexpr uint64_t kDenseStates = 64;
// No basic block is longer: Unicorn ends them at 512 instructions.
constexpr int kMaxBlockInstructions = 512;

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
  replay->records_.emplace(trace, replay->cpu_.get(), replay->checkpoints_.get(),
                           &replay->watched_);
  return replay;
}

absl::Status SegmentReplay::Load(std::shared_ptr<const Segment> segment) {
  if (segment != segment_) records_->Begin(segment.get());
  segment_ = std::move(segment);
  return Restart(TurnImports::kApply);
}

absl::Status SegmentReplay::Restart(TurnImports imports) {
  checkpoints_->Reset();
  standing_ = Standing::kNowhere;
  RegisterFile registers;
  if (!FromWords(segment_->registers(), &registers)) {
    return absl::DataLossError(absl::StrCat(segment_->info().path, ": the first register file has ",
                                            segment_->registers().size(), " words, not ",
                                            kRegisterWords));
  }
  cpu_->SetRegisters(registers);
  cpu_->set_count(segment_->info().first_count);
  records_->set_cursor(0);
  ForgetHits();
  pace_.Begin();
  standing_ = Standing::kState;
  RETURN_IF_ERROR(Settle(imports));
  if (imports == TurnImports::kHoldBack) return absl::OkStatus();
  // So that the way back to here costs the pages written only, not all imports again.
  if (pace_.takes_as_it_goes()) TakeCheckpoint();
  return absl::OkStatus();
}

bool SegmentReplay::OnMissing(uint64_t page, Access access) {
  if (records_->ImportUnlisted(page)) return true;
  refused_page_ = page;
  return false;
}

bool SegmentReplay::OnFirstWrite(uint64_t page) {
  checkpoints_->OnFirstWrite(page);
  return true;
}

// After a divergence the Cpu is in no recorded state.
absl::Status SegmentReplay::Fails(absl::Status divergence) {
  if (!divergence.ok()) standing_ = Standing::kNowhere;
  return divergence;
}

absl::Status SegmentReplay::Settle(TurnImports imports) { return Fails(records_->Settle(imports)); }

absl::Status SegmentReplay::ApplyTransition(TurnImports imports) {
  const uint64_t before = count();
  absl::Status status = records_->ApplyTransition(imports);
  if (count() > before) {
    ++states_replayed_;
    pace_.Spend(CheckpointPace::kTransitionStates);
  }
  return Fails(std::move(status));
}

void SegmentReplay::ForgetHits() {
  hit_.reset();
  watched_.Clear();
}

bool SegmentReplay::ReadHeld(uint64_t address, absl::Span<uint8_t> out) const {
  // The last page may be the address space's.
  const size_t pages = records_->no_page_was_left() || out.empty()
                           ? 0
                           : (address % kPageBytes + out.size() - 1) / kPageBytes + 1;
  for (size_t i = 0; i < pages; ++i) {
    const uint64_t page = PageOf(address) + i * kPageBytes;
    if (records_->LeftSince(page).has_value()) return false;
  }
  return cpu_->ReadHeld(address, out);
}

void SegmentReplay::SetStops(absl::flat_hash_set<uint64_t> breakpoints,
                             std::vector<Watchpoint> watchpoints) {
  if (breakpoints != breakpoints_) {
    breakpoints_ = std::move(breakpoints);
    cpu_->SetBreakpoints(breakpoints_);
  }
  if (watchpoints != watched_.watchpoints()) {
    watched_.SetWatchpoints(std::move(watchpoints));
    cpu_->SetWatchpoints(watched_.watchpoints());
  }
}

// What the instruction executed last, in the state `count`, touched.
WatchHit SegmentReplay::HitOfCpu(uint64_t count) const {
  const Watchpoints::Hit& hit = cpu_->watch_hit();
  WatchHit watch = {.count = count, .index = hit.index, .address = hit.address};
  if (!hit.silent) return watch;
  for (const Watchpoints::Hit& store : cpu_->stores()) {
    if (store.silent) watch.silent.push_back(store);
  }
  return watch;
}

absl::StatusOr<LegEnd> SegmentReplay::RunLeg(const LegOptions& options) {
  ForgetHits();
  if (at_end()) return LegEnd::kSegmentEnd;
  if (count() >= options.limit) return LegEnd::kLimit;
  if (!records_->TransitionIsNext()) return RunCpu(options);
  if (AtBreakpoint()) {
    if (options.trace != nullptr) {
      ++options.trace->cpu.breakpoint_hits;
      options.trace->cpu.last_breakpoint_count = count();
    } else if (!options.leave_first_breakpoint) {
      return LegEnd::kBreakpoint;
    }
  }
  RETURN_IF_ERROR(ApplyTransition(TurnImports::kApply));
  TakeCheckpointIfDue();
  return FinishLeg(LegEnd::kLimit, options);
}

// How far the Cpu may run at once: up to the limit, the next record, or the next checkpoint.
uint64_t SegmentReplay::CpuLimit(const LegOptions& options) {
  const uint64_t start = count();
  uint64_t limit = std::min(options.limit, records_->NextCount());
  limit = std::min(limit, start + std::min(limit - start, pace_.StatesToNext()));
  if (options.trace != nullptr || watched_.watchpoints().empty()) return limit;
  const uint64_t pages = checkpoints_->dirty_pages();
  const std::optional<uint64_t> newest = checkpoints_->NewestAtOrBefore(start);
  if (!newest.has_value() || start - *newest > kWatchCheckpointStates) TakeCheckpoint();
  return std::min(limit, start + std::max(kWatchLegStates, pages * kWatchLegStatesPerPage));
}

absl::StatusOr<LegEnd> SegmentReplay::RunCpu(const LegOptions& options) {
  const uint64_t start = count();
  const uint64_t next_record = records_->NextCount();
  RunOptions run;
  run.limit = CpuLimit(options);
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
      hit_ = HitOfCpu(count() - 1);
      end = LegEnd::kWatch;
      break;
    case Stop::kSpecial:
      return Fails(DivergedAtSpecial(place()));
  }
  states_replayed_ += count() - start;
  pace_.Spend(count() - start);
  if (count() == next_record) RETURN_IF_ERROR(Settle(TurnImports::kApply));
  TakeCheckpointIfDue();
  return FinishLeg(end, options);
}

// Something happened inside a basic block: a watched access, or code rewriting itself. Goes back to
// the start of that block and steps through it.
absl::StatusOr<LegEnd> SegmentReplay::RecoverFromFault(const RunResult& fault,
                                                       const LegOptions& options,
                                                       uint64_t leg_start) {
  if (checkpoints_->NewestAtOrBefore(leg_start).has_value()) {
    records_->set_cursor(checkpoints_->Restore(leg_start));
  } else {
    RETURN_IF_ERROR(Restart(TurnImports::kApply));
  }
  RETURN_IF_ERROR(AdvanceTo(leg_start));
  HitTrace ignored;
  HitTrace* const trace = options.trace == nullptr ? &ignored : options.trace;
  while (count() < fault.block_count) {
    RETURN_IF_ERROR(RunLeg({.limit = fault.block_count, .trace = trace}).status());
  }
  ForgetHits();
  ASSIGN_OR_RETURN(LegEnd end, StepThroughBlock(options, leg_start));
  // Where one block does this others will: do not come back further than here for them. (Where
  // records are still to be applied the state is not complete.)
  if (count() < records_->NextCount()) TakeCheckpoint();
  return end;
}

absl::StatusOr<LegEnd> SegmentReplay::StepThroughBlock(const LegOptions& options,
                                                       uint64_t leg_start) {
  const uint64_t limit = std::min(options.limit, records_->NextCount());
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
    if (step.stop == Stop::kFault)
      return Fails(DivergedAtFault(place(), refused_page_, step.fault_address));
    if (step.stop == Stop::kSpecial) return Fails(DivergedAtSpecial(place()));
    if (step.stop == Stop::kWatch) {
      if (options.trace == nullptr) {
        hit_ = HitOfCpu(before);
        return LegEnd::kWatch;
      }
      options.trace->cpu.AddWatchHit({before, before + 1});
    }
    if (!instruction.has_value() || instruction->control_flow) break;
  }
  return LegEnd::kLimit;
}

LegEnd SegmentReplay::FinishLeg(LegEnd end, const LegOptions& options) {
  const std::optional<WatchHit>& change = watched_.change();
  if (options.trace != nullptr) {
    if (change.has_value()) options.trace->import = change;
    options.trace->unknown.insert(options.trace->unknown.end(), watched_.imports().begin(),
                                  watched_.imports().end());
  } else if (change.has_value()) {
    hit_ = change;
    return LegEnd::kWatch;
  }
  return end == LegEnd::kLimit && at_end() ? LegEnd::kSegmentEnd : end;
}

absl::Status SegmentReplay::AdvanceTo(uint64_t target, const std::atomic<bool>* interrupt) {
  HitTrace ignored;
  return AdvanceNoting(target, &ignored, interrupt);
}

// In a damaged trace a segment may be shorter than the trace's index says.
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

absl::Status SegmentReplay::AdvanceLeaving(uint64_t target, const std::atomic<bool>* interrupt) {
  // What replaying from here to the target costs, about, in states.
  const auto cost = [&] {
    return target - count() + records_->RecordsBefore(target) * CheckpointPace::kTransitionStates;
  };
  while (count() < target && cost() > CheckpointPace::kLeavingStates) {
    const uint64_t part = std::max<uint64_t>(1, (target - count()) / kLeavingPart);
    RETURN_IF_ERROR(AdvanceTo(count() + part, interrupt));
    LeaveCheckpoint();
  }
  return AdvanceTo(target, interrupt);
}

absl::Status SegmentReplay::StepOnce(TurnImports imports) {
  const uint64_t target = count() + 1;
  if (at_end()) return OutsideSegment(target);
  ForgetHits();
  if (records_->TransitionIsNext()) {
    absl::Status status = ApplyTransition(imports);
    hit_ = watched_.change();
    return status;
  }
  const RunResult step = cpu_->Step();
  if (step.stop == Stop::kFault) {
    return Fails(DivergedAtFault(place(), refused_page_, step.fault_address));
  }
  if (step.stop == Stop::kSpecial) return Fails(DivergedAtSpecial(place()));
  CHECK(count() == target);
  ++states_replayed_;
  pace_.Spend(1);
  absl::Status status;
  if (count() == records_->NextCount()) status = Settle(imports);
  hit_ = watched_.change();
  // What the instruction did comes first.
  if (step.stop == Stop::kWatch) {
    hit_ = HitOfCpu(target - 1);
  }
  return status;
}

absl::Status SegmentReplay::MoveTo(uint64_t target, bool dense,
                                   const std::atomic<bool>* interrupt) {
  const bool back = target < count();
  RETURN_IF_ERROR(RewindTo(target));
  if (!dense) return back ? AdvanceLeaving(target, interrupt) : AdvanceTo(target, interrupt);
  // Checkpoints halve the way left, then there is one at every state: a further step back restores
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
  checkpoints_->Thin(pace_.limit_bytes());
  return absl::OkStatus();
}

absl::Status SegmentReplay::MoveToBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt) {
  if (before_turn() && count() == target) return absl::OkStatus();
  if (target == segment_->info().first_count) {
    RETURN_IF_ERROR(Restart(TurnImports::kHoldBack));
  } else {
    RETURN_IF_ERROR(MoveTo(target - 1, /*dense=*/false, interrupt));
    // The state after this is to be left again, and coming back here should cost nothing.
    TakeCheckpoint();
    RETURN_IF_ERROR(StepOnce(TurnImports::kHoldBack));
  }
  standing_ = Standing::kBeforeTurn;
  return absl::OkStatus();
}

absl::Status SegmentReplay::RewindTo(uint64_t target) {
  if (standing_ == Standing::kState && count() <= target) return absl::OkStatus();
  // What was held back is missing in the state itself, too: an earlier one is gone back to.
  if (before_turn()) {
    if (count() == segment_->info().first_count) return Restart(TurnImports::kApply);
    target = std::min(target, count() - 1);
  }
  if (!checkpoints_->NewestAtOrBefore(target).has_value()) return Restart(TurnImports::kApply);
  records_->set_cursor(checkpoints_->Restore(target));
  standing_ = Standing::kState;
  pace_.AtCheckpoint();
  return absl::OkStatus();
}

void SegmentReplay::TakeCheckpoint() {
  if (standing_ != Standing::kState) return;
  checkpoints_->Take(records_->cursor());
  pace_.AtCheckpoint();
  checkpoints_->Thin(pace_.limit_bytes());
}

void SegmentReplay::LeaveCheckpoint() {
  if (pace_.IsWorthOne(checkpoints_->dirty_pages())) TakeCheckpoint();
}

void SegmentReplay::KeepCheckpoints(uint64_t max_bytes) {
  pace_.set_max_bytes(max_bytes);
  checkpoints_->Thin(max_bytes);
}

void SegmentReplay::TakeCheckpointIfDue() {
  if (!pace_.IsDue()) return;
  const uint64_t pages = checkpoints_->dirty_pages();
  TakeCheckpoint();
  pace_.SetInterval(pages);
}

}  // namespace hindsight
