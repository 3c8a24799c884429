#include "recorder/translate/attention.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
  if (!words_.empty() &&
      (syscall(SYS_futex_waitv, words_.data(), words_.size(), 0, &until, CLOCK_MONOTONIC) >= 0 ||
       errno != ENOSYS)) {
    return;
  }
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace hindsight
