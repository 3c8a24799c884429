#include "recorder/emulate/thread/turn_clock.h"

#include <algorithm>
#include <utility>

namespace hindsight {
namespace {

// How long a turn among others may take, in legs of at most kLegNs: a quantum of plain
// instructions.
constexpr uint64_t kTurnNs = 1'000'000;
constexpr uint64_t kLegNs = 500'000;
constexpr uint64_t kMinLeg = 1'000;
// A thread that works on much memory gets longer turns, because its view is brought up to date
// before each and written back after it: this many times as long as that takes.
constexpr uint64_t kTurnPerSwitch = 6;
constexpr uint64_t kMaxTurnNs = 16'000'000;
// A turn that no other thread wants is extended, but not for longer: the kernel may have written
// memory for threads that wait in system calls.
constexpr uint64_t kMaxExtendedTurnNs = 50'000'000;

constexpr uint64_t kNever = ~uint64_t{0};

// With chaos, a program of one thread is interrupted as often too, for signals from outside.
constexpr uint64_t kLegAlone = 50'000;

}  // namespace

void TurnClock::Begin(uint64_t switched_ns, const Now& now) {
  begun_ns_ = switched_ns;
  Extend(now);
}

void TurnClock::Extend(const Now& now) {
  was_alone_ = now.alone;
  uint64_t length = quantum_;
  if (!was_alone_) {
    // Without chaos they are three quarters of the longest on average.
    const uint64_t longest =
        scheduler_->chaos() ? kSharedQuantum : kSharedQuantum * (turn_ns_ / kTurnNs) * 4 / 3;
    length = scheduler_->TurnLength(std::min(quantum_, longest));
  }
  end_ = now.count + length;
  end_ns_ = now.ns + turn_ns_;
}

bool TurnClock::IsOver(const Now& now, bool after_call, absl::FunctionRef<bool()> others_wait) {
  // Other threads exist since the last look.
  if (was_alone_ && !now.alone) Extend(now);
  if (now.count < end_) {
    if (now.ns < end_ns_ || now.alone) return false;
    if (!after_call) {
      // Legs end with blocks, turns at any instruction.
      end_ = std::min(end_, now.count + 1 + scheduler_->Tail());
      end_ns_ = kNever;
      return false;
    }
  }
  if (now.ns >= begun_ns_ + kMaxExtendedTurnNs || others_wait()) return true;
  Extend(now);
  return false;
}

void TurnClock::End(uint64_t switch_ns) {
  turn_ns_ = std::clamp(kTurnPerSwitch * switch_ns, (turn_ns_ + kTurnNs) / 2, kMaxTurnNs);
}

TurnClock::Leg TurnClock::NextLeg(uint64_t count, uint64_t limit, bool alone, bool short_leg,
                                  absl::FunctionRef<bool()> others_wait) const {
  uint64_t leg = quantum_;
  if (short_leg) {
    leg = leg_;
  } else if (scheduler_->chaos()) {
    leg = std::min(leg, kLegAlone);
  }
  limit = std::min(limit, count + leg);
  const uint64_t exact = std::min(alone ? kNever : end_, delays_signal() ? signal_at_ : kNever);
  // An exact end costs some microseconds, and blocks of code that begin there.
  return {.limit = std::min(limit, exact),
          .exact = exact <= limit && (exact == signal_at_ || others_wait())};
}

// Instructions differ in cost, and a thread that spins until another one acts must not spin for
// long.
void TurnClock::NoteLeg(uint64_t first, const Leg& leg, bool reached_limit, uint64_t ns) {
  const bool whole = leg.limit >= first + leg_;
  if (!reached_limit || (!whole && ns <= kLegNs)) return;
  if (ns > kLegNs) {
    leg_ = std::max(leg_ / 2, kMinLeg);
  } else if (ns < kLegNs / 4) {
    leg_ = std::min(leg_ * 2, kSharedQuantum);
  }
}

void TurnClock::DelaySignal(uint64_t count) { signal_at_ = count + scheduler_->SignalDelay(); }

bool TurnClock::ForgetSignal() { return std::exchange(signal_at_, 0) != 0; }

}  // namespace hindsight
