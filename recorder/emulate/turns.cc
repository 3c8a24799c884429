// ThreadEngine: its turns, and where they end.

#include <algorithm>
#include <utility>
#include <vector>

#include "recorder/emulate/recording.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/emulate/turn_scheduler.h"
#include "recorder/process/rseq.h"

namespace hindsight {
namespace {

// What a turn among others may take, in legs of at most so long: a quantum of plain instructions.
constexpr uint64_t kTurnNs = 1'000'000;
constexpr uint64_t kLegNs = 500'000;
constexpr uint64_t kMinLeg = 1'000;
// A thread that works on much memory takes longer turns, for its view must agree with the process
// before and after each: so many times as long as that takes.
constexpr uint64_t kTurnPerSwitch = 6;
constexpr uint64_t kMaxTurnNs = 16'000'000;
// Where nobody else wants a turn it goes on, but not for ever without looking at what the kernel
// may have written for those who wait.
constexpr uint64_t kMaxExtendedTurnNs = 50'000'000;

constexpr uint64_t kNever = ~uint64_t{0};

// With chaos a program of one thread is interrupted as often for signals that come from outside.
constexpr uint64_t kLegAlone = 50'000;

// Pages so near the stack pointer are of the stack.
constexpr uint64_t kStackInUse = 16'384;

// Longer restartable sequences are no such.
constexpr int kMaxSequenceSteps = 1000;

}  // namespace

void ThreadEngine::RunTurn() {
  const uint64_t begun_ns = recording_->NowNs();
  BeginTurn();
  if (cpu_ == nullptr) return;
  const uint64_t ready_ns = recording_->NowNs();
  const uint64_t first = cpu_->count();
  RunLegs(begun_ns);
  const uint64_t done_ns = recording_->NowNs();
  if (state_ == State::kReady && rseq_ != 0 && !recording_->alone()) LeaveSequence();
  if (state_ == State::kReady) {
    if (recording_->flush_due()) LogStateHash();
    Sync();
  }
  recording_->Keep(log_.status());
  if (!recording_->alone()) recording_->scheduler().NoteExecuted(cpu_->count() - first);
  const uint64_t end_ns = recording_->NowNs();
  process_->NoteTurnEnd(end_ns);
  const uint64_t switch_ns = ready_ns - begun_ns + end_ns - done_ns;
  turn_ns_ = std::clamp(kTurnPerSwitch * switch_ns, (turn_ns_ + kTurnNs) / 2, kMaxTurnNs);
}

void ThreadEngine::RunLegs(uint64_t begun_ns) {
  LengthenTurn();
  while (log_.status().ok() && !recording_->end_wanted()) {
    if (state_ == State::kWaiting) {
      std::optional<TraceeStop> stop = AwaitStop();
      if (!stop.has_value()) break;
      OnStop(*std::move(stop));
      if (state_ == State::kReady && std::exchange(yields_, false)) break;
    } else if (state_ == State::kReady) {
      Turn();
      if (std::exchange(yields_, false)) break;
      // Of a call that has not begun nobody knows what it is going to store.
      if (state_ != State::kWaiting && TurnIsOver(begun_ns)) break;
    }
    if (state_ == State::kEnded || state_ == State::kNative) break;
    recording_->KeepHouse();
  }
}

// The turn begins, or goes on because nobody else wants one.
void ThreadEngine::LengthenTurn() {
  const uint64_t quantum = recording_->options().quantum;
  const bool chaos = recording_->scheduler().chaos();
  turn_alone_ = recording_->alone();
  uint64_t length = quantum;
  if (!turn_alone_) {
    // Without chaos they are three quarters of the longest on average.
    const uint64_t longest = chaos ? kSharedQuantum : kSharedQuantum * (turn_ns_ / kTurnNs) * 4 / 3;
    length = recording_->scheduler().TurnLength(std::min(quantum, longest));
  }
  turn_end_ = cpu_->count() + length;
  turn_end_ns_ = recording_->NowNs() + turn_ns_;
}

bool ThreadEngine::TurnIsOver(uint64_t begun_ns) {
  const uint64_t now = recording_->NowNs();
  // The other threads are as new as this is.
  if (turn_alone_ && !recording_->alone()) LengthenTurn();
  if (cpu_->count() < turn_end_) {
    if (now < turn_end_ns_ || recording_->alone()) return false;
    if (state_ == State::kReady) {
      // Legs end with blocks, turns at any instruction.
      turn_end_ = std::min(turn_end_, cpu_->count() + 1 + recording_->scheduler().Tail());
      turn_end_ns_ = kNever;
      return false;
    }
  }
  if (now >= begun_ns + kMaxExtendedTurnNs || recording_->OthersWait(this)) return true;
  LengthenTurn();
  return false;
}

// A turn must not end within a restartable sequence: it would not be started over.
void ThreadEngine::LeaveSequence() {
  const auto read = [this](uint64_t address, absl::Span<uint8_t> out) {
    return cpu_->ReadHeld(address, out) || tracee_->Read(address, out);
  };
  for (int i = 0; i < kMaxSequenceSteps && SequenceAt(rseq_, cpu_->pc(), read).has_value(); ++i) {
    if (cpu_->Step().stop == Stop::kLimit) continue;
    // Whatever it is can be done in the next turn as well; only the abort handler does not see it.
    BackToSync();
    return;
  }
}

RunOptions ThreadEngine::NextLeg() {
  const bool alone = recording_->alone();
  const bool chaos = recording_->scheduler().chaos();
  uint64_t leg = recording_->options().quantum;
  if (!alone || process_->limits_time) {
    leg = leg_;
  } else if (chaos) {
    leg = std::min(leg, kLegAlone);
  }
  RunOptions run;
  run.limit = std::min({cpu_->count() + leg, next_light_keyframe_, next_check_});
  const uint64_t exact =
      std::min(alone ? kNever : turn_end_, signal_at_ == 0 ? kNever : signal_at_);
  // An exact end costs some microseconds, and blocks of code that begin there.
  run.exact_limit = exact <= run.limit && (exact == signal_at_ || recording_->OthersWait(this));
  run.limit = std::min(run.limit, exact);
  return run;
}

void ThreadEngine::Turn() {
  // A signal that the call raised, or let through, comes before the next instruction.
  const bool signaled = std::exchange(after_call_, false) && tracee_->HasDeliverableSignal();
  if (std::exchange(runs_natively_next_, false) || signaled) {
    RunOneNatively();
    return;
  }
  cpu_->SetBreakpoints(process_->stop_places());
  if (cpu_->count() >= next_check_) {
    CheckBlock();
    return;
  }
  const bool short_leg = !recording_->alone() || process_->limits_time;
  const RunOptions run = NextLeg();
  if (recording_->scheduler().chaos()) pager_.TakeNotedWrites();
  const uint64_t first = cpu_->count();
  const uint64_t started = recording_->NowNs();
  const RunResult result = cpu_->Run(run);
  const uint64_t took = recording_->NowNs() - started;
  emulated_ns_ += took;
  process_->emulated_ns += took;
  if (process_->limits_time) owed_ns_ += took;
  const bool whole_leg = run.limit >= first + leg_;
  if (short_leg && result.stop == Stop::kLimit && (whole_leg || took > kLegNs)) AdaptLeg(took);
  const bool exact = result.stop == Stop::kLimit || result.stop == Stop::kSpecial;
  if (exact && EndNearPlace(first)) return;
  switch (result.stop) {
    case Stop::kSpecial:
      OnSpecial();
      break;
    case Stop::kFault:
      OnFault(result.block_count);
      break;
    case Stop::kBreakpoint:
      Sync();
      process_->ReachStop();
      break;
    default:
      OnLimit();
      break;
  }
}

// States near which threads meet: locked instructions, and writes to memory that others use, or a
// signal's handler may; executed since state `first`, in their order.
std::vector<uint64_t> ThreadEngine::PlacesSince(uint64_t first) {
  std::vector<uint64_t> places;
  // Each turn begins by writing to the stack, which is nobody else's.
  const uint64_t stack = cpu_->registers().gpr[kRsp] - kStackInUse;
  for (const auto& [page, count] : pager_.TakeNotedWrites()) {
    if (page - stack >= 2 * kStackInUse) places.push_back(count);
  }
  places.insert(places.end(),
                std::lower_bound(ordered_.begin(), ordered_.end(), std::max(first, ordered_until_)),
                ordered_.end());
  std::sort(places.begin(), places.end());
  return places;
}

// With chaos, a turn may be made to have ended near such a place, or a pending signal to come
// there: what was done since the sync point is done again up to there. False: it is not.
bool ThreadEngine::EndNearPlace(uint64_t first) {
  TurnScheduler& scheduler = recording_->scheduler();
  if (!scheduler.chaos() || (recording_->alone() && signal_at_ == 0)) return false;
  const std::vector<uint64_t> places = PlacesSince(first);
  const std::optional<size_t> chosen = scheduler.EndsAtPlace(thread(), places.size());
  if (!chosen.has_value()) return false;
  // Before `first` there may be a system call.
  const uint64_t target = std::max(first + 1, places[*chosen] + scheduler.DistanceFromPlace());
  if (target >= cpu_->count()) return false;
  if (signal_at_ != 0) signal_at_ = target;
  yields_ = true;
  if (RunBackTo(target) || tracee_->IsStopped()) {
    OnLimit();
  } else {
    OnVanished();
  }
  return true;
}

// With chaos a signal may come later than it was noticed.
bool ThreadEngine::SignalIsDue() {
  if (!tracee_->HasDeliverableSignal()) {
    if (std::exchange(signal_at_, 0) != 0) {
      pager_.set_note_writes(ProcessPager::NoteWrites::kShared);
    }
    return false;
  }
  if (!recording_->scheduler().chaos()) return true;
  if (signal_at_ == 0) {
    signal_at_ = cpu_->count() + recording_->scheduler().SignalDelay();
    pager_.set_note_writes(ProcessPager::NoteWrites::kAll);
    Sync();
  }
  if (cpu_->count() < signal_at_) return false;
  signal_at_ = 0;
  pager_.set_note_writes(ProcessPager::NoteWrites::kShared);
  return true;
}

// Instructions cost differently: one that waits for another thread by spinning shall not do so for
// long.
void ThreadEngine::AdaptLeg(uint64_t ns) {
  if (ns > kLegNs) {
    leg_ = std::max(leg_ / 2, kMinLeg);
  } else if (ns < kLegNs / 4) {
    leg_ = std::min(leg_ * 2, kSharedQuantum);
  }
}

}  // namespace hindsight
