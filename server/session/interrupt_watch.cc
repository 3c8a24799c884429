#include "server/session/interrupt_watch.h"

namespace hindsight {
namespace {

// A key press takes longer than this to be noticed anyway.
constexpr std::chrono::milliseconds kTick(5);
// One second without a run, then the thread sleeps until the next.
constexpr int kTicksBeforeSleep = 200;
// gdb's is twice as long.
constexpr std::chrono::seconds kPatience(1);
// Between two runs of one command gdb needs milliseconds, a user after a command rather seconds.
constexpr std::chrono::seconds kInterruptLasts(2);

}  // namespace

InterruptWatch::InterruptWatch(rsp::Link* link, std::atomic<bool>* interrupt)
    : link_(link), interrupt_(interrupt), thread_([this] { Loop(); }) {}

InterruptWatch::~InterruptWatch() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void InterruptWatch::Arm(bool patience) {
  bool wake;
  {
    const std::lock_guard lock(mutex_);
    const auto oldest = std::chrono::steady_clock::now() - kInterruptLasts;
    if (raised_at_ < oldest) interrupt_->store(false);
    if (link_->TakeEarlyInterrupt(oldest)) Raise();
    armed_ = true;
    patience_ = patience;
    heard_ = std::chrono::steady_clock::now();
    wake = asleep_;
  }
  if (wake) wake_.notify_one();
}

void InterruptWatch::Disarm() {
  const std::lock_guard lock(mutex_);
  armed_ = false;
}

void InterruptWatch::Acted() {
  const std::lock_guard lock(mutex_);
  interrupt_->store(false);
}

void InterruptWatch::Raise() {
  raised_at_ = std::chrono::steady_clock::now();
  interrupt_->store(true);
}

// Holds the lock, so Disarm waits: the link never has two users.
void InterruptWatch::Look() {
  if (link_->PollInterrupt()) Raise();
  const auto now = std::chrono::steady_clock::now();
  if (!patience_ || now - heard_ < kPatience) return;
  heard_ = now;
  // If the client is gone, the answer will not reach it either.
  link_->KeepAlive().IgnoreError();
}

void InterruptWatch::Loop() {
  std::unique_lock lock(mutex_);
  int idle_ticks = 0;
  while (!quit_) {
    if (armed_) {
      idle_ticks = 0;
      Look();
    }
    if (++idle_ticks < kTicksBeforeSleep) {
      wake_.wait_for(lock, kTick, [this] { return quit_; });
    } else {
      asleep_ = true;
      wake_.wait(lock, [this] { return armed_ || quit_; });
      asleep_ = false;
      idle_ticks = 0;
    }
  }
}

}  // namespace hindsight
