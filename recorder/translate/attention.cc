#include "recorder/translate/attention.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace hindsight {

void Attention::Note(const uint32_t* word) {
  if (words_.size() == FUTEX_WAITV_MAX) return;
  futex_waitv wait = {};
  wait.val = __atomic_load_n(word, __ATOMIC_SEQ_CST);
  wait.uaddr = reinterpret_cast<uint64_t>(word);
  wait.flags = FUTEX_32;
  words_.push_back(wait);
}

void Attention::Await(int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += nanoseconds;
  until.tv_sec += until.tv_nsec / kSecond;
  until.tv_nsec %= kSecond;
  // Linux 5.16.
  if (!words_.empty()) {
    can_hear_ =
        syscall(SYS_futex_waitv, words_.data(), words_.size(), 0, &until, CLOCK_MONOTONIC) >= 0 ||
        errno != ENOSYS;
    if (can_hear_) return;
  }
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

bool Attention::HearsAll() const { return can_hear_ && words_.size() < FUTEX_WAITV_MAX; }

int64_t IdlePause::Next() {
  constexpr int64_t kFraction = 16;
  const int64_t pause = std::clamp(idle_ns_ / kFraction, least_ns_, most_ns_);
  idle_ns_ += pause;
  return pause;
}

}  // namespace hindsight
