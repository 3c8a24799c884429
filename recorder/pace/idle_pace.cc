#include "recorder/pace/idle_pace.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

void Signal(const UniqueFd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof(one));
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
};

IdlePace::IdlePace() : ends_(std::make_shared<Ends>()) {
  std::thread([ends = ends_] {
    const sched_param none = {};
    // Not refused: it asks for less. If it is, work is done at once.
    sched_setscheduler(0, SCHED_IDLE, &none);
    while (Take(ends->asked) && !ends->over) Signal(ends->granted);
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
