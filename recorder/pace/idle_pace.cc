#include "recorder/pace/idle_pace.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
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

// No locks: the thread could be kept from running while it holds one.
struct IdlePace::Ends {
  using Step = absl::FunctionRef<void()>;

  const UniqueFd asked{eventfd(0, EFD_CLOEXEC)};
  const UniqueFd ended{eventfd(0, EFD_CLOEXEC)};  // a step that the thread has run
  const UniqueFd hurried{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<Step*> waiting{nullptr};  // whoever takes it runs it
  std::atomic<bool> hurry{false}, over{false};

  // Of the thread.
  void Loop() {
    while (Take(asked) && !over) {
      Step* const step = waiting.exchange(nullptr);
      if (step == nullptr) continue;
      (*step)();
      Signal(ended);
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

void IdlePace::Run(absl::FunctionRef<void()> step) {
  Take(ends_->hurried);  // one that came too late
  if (ends_->hurry) return step();
  ends_->waiting = &step;
  Signal(ends_->asked);
  pollfd events[] = {{ends_->ended.get(), POLLIN, 0}, {ends_->hurried.get(), POLLIN, 0}};
  poll(events, 2, kLongestWaitMs);
  if (ends_->waiting.exchange(nullptr) != nullptr) return step();
  Take(ends_->ended);
}

void IdlePace::Hurry(bool hurry) {
  ends_->hurry = hurry;
  if (hurry) Signal(ends_->hurried);
}

}  // namespace hindsight
