// ThreadEngine: its turns, and where they end.

#include <algorithm>
#include <optional>
#include <utility>

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/process/rseq.h"

namespace hindsight {
namespace {

// Real restartable sequences are shorter.
constexpr int kMaxSequenceSteps = 1000;

}  // namespace

void ThreadEngine::RunTurn() {
  const uint64_t begun_ns = engine_->session().NowNs();
  BeginTurn();
  if (cpu_ == nullptr) return;
  const uint64_t ready_ns = engine_->session().NowNs();
  const uint64_t first = cpu_->count();
  RunLegs(begun_ns);
  const uint64_t done_ns = engine_->session().NowNs();
  if (state_ == State::kReady && !engine_->alone()) LeaveSequence();
  if (state_ == State::kReady) {
    if (engine_->session().flush_due()) sync_.LogHash();
    Sync();
  }
  engine_->session().Keep(log_.status());
  if (!engine_->alone()) engine_->scheduler().NoteExecuted(cpu_->count() - first);
  const uint64_t end_ns = engine_->session().NowNs();
  process_->NoteTurnEnd(end_ns);
  clock_.End(ready_ns - begun_ns + end_ns - done_ns);
}

TurnClock::Now ThreadEngine::Now() const {
  return {.count = cpu_->count(), .ns = engine_->session().NowNs(), .alone = engine_->alone()};
}

void ThreadEngine::RunLegs(uint64_t begun_ns) {
  const auto others_wait = [this] { return engine_->OthersWait(this); };
  clock_.Begin(begun_ns, Now());
  while (log_.status().ok() && !engine_->session().end_wanted()) {
    if (state_ == State::kWaiting) {
      std::optional<TraceeStop> stop = AwaitStop();
      if (!stop.has_value()) break;
      OnStop(*std::move(stop));
      // A turn does not end before a call begins: what it will store is not known then.
      if (state_ == State::kReady && (std::exchange(yields_, false) ||
                                      clock_.IsOver(Now(), /*after_call=*/true, others_wait))) {
        break;
      }
    } else if (state_ == State::kReady) {
      if (log_.IsSegmentLarge()) LightKeyframe();
      Turn();
      if (std::exchange(yields_, false)) break;
      if (state_ == State::kReady && clock_.IsOver(Now(), /*after_call=*/false, others_wait)) break;
    }
    if (state_ == State::kEnded || state_ == State::kNative) break;
    engine_->Tick();
  }
}

// Whether the thread is in a restartable sequence.
bool ThreadEngine::InSequence() const {
  const uint64_t rseq = kernel_words_.rseq();
  if (rseq == 0) return false;
  const auto read = [this](uint64_t address, absl::Span<uint8_t> out) {
    return cpu_->ReadHeld(address, out) || tracee_->memory().Read(address, out);
  };
  return SequenceAt(rseq, cpu_->pc(), read).has_value();
}

// A turn must not end within a restartable sequence: it would not be started over.
void ThreadEngine::LeaveSequence() {
  for (int i = 0; i < kMaxSequenceSteps && InSequence(); ++i) {
    if (cpu_->Step().stop == Stop::kLimit) continue;
    // What stopped it is dealt with in the next turn; only the abort handler is not entered.
    sync_.GoBack();
    return;
  }
}

TurnClock::Leg ThreadEngine::NextLeg(bool short_leg) {
  const auto others_wait = [this] { return engine_->OthersWait(this); };
  return clock_.NextLeg(cpu_->count(), std::min(segments_.next(), checks_.next()), engine_->alone(),
                        short_leg, others_wait);
}

void ThreadEngine::Turn() {
  if (process_->stopped()) {
    JoinGroupStop();
    return;
  }
  // A signal that the call raised, or let through, comes before the next instruction.
  const bool signaled = std::exchange(after_call_, false) && tracee_->signals().HasDeliverable();
  if (std::exchange(runs_natively_next_, false) || signaled) {
    RunOneNatively();
    return;
  }
  SnapshotAtPlace();
  if (engine_->session().end_wanted()) return;
  cpu_->SetBreakpoints(process_->image().breakpoints());
  if (cpu_->count() >= checks_.next()) {
    CheckBlock();
    return;
  }
  const bool short_leg = !engine_->alone() || process_->time().limited();
  const TurnClock::Leg leg = NextLeg(short_leg);
  chaos_.BeginLeg();
  const uint64_t first = cpu_->count();
  const uint64_t started = engine_->session().NowNs();
  const RunResult result = cpu_->Run({.limit = leg.limit,
                                      .exact_limit = leg.exact,
                                      .skip_first_breakpoint = place_passed_ == first});
  const uint64_t took = engine_->session().NowNs() - started;
  time_.Add(took, /*owed=*/process_->time().limited());
  process_->time().Add(took);
  if (short_leg) clock_.NoteLeg(first, leg, result.stop == Stop::kLimit, took);
  const bool exact = result.stop == Stop::kLimit || result.stop == Stop::kSpecial;
  if (exact && EndEarlier(first)) return;
  switch (result.stop) {
    case Stop::kSpecial:
      OnSpecial();
      break;
    case Stop::kFault:
      OnFault(result.block_count);
      break;
    case Stop::kBreakpoint:
      Sync();
      if (process_->image().stop_places().contains(cpu_->pc())) process_->ReachStop();
      break;
    default:
      OnLimit();
      break;
  }
}

// With chaos, may end the turn, or deliver a pending signal, in an earlier state: goes back to the
// sync point, and executes again up to there. False: it did not.
bool ThreadEngine::EndEarlier(uint64_t first) {
  const std::optional<uint64_t> end =
      chaos_.EarlierEnd(thread(), cpu_.get(), first, engine_->alone());
  if (!end.has_value()) return false;
  yields_ = true;
  if (RunBackTo(*end) || tracee_->IsStopped()) {
    OnLimit();
  } else {
    OnVanished();
  }
  return true;
}

}  // namespace hindsight
