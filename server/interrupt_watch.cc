#include "server/interrupt_watch.h"

#include <chrono>

namespace hindsight {
namespace {

// A key press takes longer than this to be noticed anyway.
constexpr std::chrono::milliseconds kTick(5);
// One second without a run, then the thread sleeps until the next.
constexpr int kTicksBeforeSleep = 200;

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

void InterruptWatch::Arm() {
  interrupt_->store(false);
  bool wake;
  {
    const std::lock_guard lock(mutex_);
    armed_ = true;
    wake = asleep_;
  }
  if (wake) wake_.notify_one();
}

void InterruptWatch::Disarm() {
  const std::lock_guard lock(mutex_);
  armed_ = false;
}

void InterruptWatch::Loop() {
  std::unique_lock lock(mutex_);
  int idle_ticks = 0;
  while (!quit_) {
    if (armed_) {
      idle_ticks = 0;
      // The lock is held meanwhile, so Disarm waits: the link never has two users.
      if (link_->PollInterrupt()) interrupt_->store(true);
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
