#include "recorder/pace/idle_pace.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

void Signal(const UniqueFd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof(one));
}

constexpr uint64_t kLookNs = IdlePace::kLookMicroseconds * 1000;
constexpr uint64_t kLongestWaitNs = IdlePace::kLongestWaitMs * uint64_t{1'000'000};

uint64_t NowNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Whether the calling thread, which everybody else goes before, has run for all of kLookNs.
bool ProcessorIsIdle() {
  const uint64_t begin = NowNs(CLOCK_MONOTONIC), ran = NowNs(CLOCK_THREAD_CPUTIME_ID);
  uint64_t now = begin;
  while (now < begin + kLookNs) now = NowNs(CLOCK_MONOTONIC);
  // Time that the machine itself was not there for looks as if the thread had run.
  return now < begin + 2 * kLookNs && NowNs(CLOCK_THREAD_CPUTIME_ID) - ran > kLookNs * 9 / 10;
}

// False if there is none: `event` does not block, or is gone.
bool Take(const UniqueFd& event) {
  uint64_t count;
  return read(event.get(), &count, sizeof(count)) == sizeof(count);
}

}  // namespace

struct IdlePace::Ends {
  const UniqueFd asked{eventfd(0, EFD_CLOEXEC)};
  const UniqueFd granted{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> over{false};

  // Of the thread.
  void Loop() {
    while (Take(asked) && !over) {
      const uint64_t begin = NowNs(CLOCK_MONOTONIC);
      bool idle = false;
      while (!idle && !over && NowNs(CLOCK_MONOTONIC) - begin < kLongestWaitNs) {
        idle = ProcessorIsIdle();
      }
      if (idle) Signal(granted);
    }
  }
};

IdlePace::IdlePace() : ends_(std::make_shared<Ends>()) {
  std::thread([ends = ends_] {
    const sched_param none = {};
    // Not refused: it asks for less.
    sched_setscheduler(0, SCHED_IDLE, &none);
    ends->Loop();
  }).detach();
}

IdlePace::~IdlePace() {
  ends_->over = true;
  Signal(ends_->asked);
}

void IdlePace::Spend(uint64_t bytes) {
  if (spent_ >= kStepBytes) {
    spent_ = 0;
    if (!hurry_) Wait();
  }
  spent_ += bytes;
}

void IdlePace::Hurry(bool hurry) {
  hurry_ = hurry;
  if (hurry) Signal(ends_->granted);
}

void IdlePace::Wait() {
  Take(ends_->granted);  // one that came too late
  if (hurry_) return;
  Signal(ends_->asked);
  pollfd granted = {ends_->granted.get(), POLLIN, 0};
  poll(&granted, 1, kLongestWaitMs);
}

}  // namespace hindsight
