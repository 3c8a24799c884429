#include "recorder/emulate/thread/cpu_time.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

namespace hindsight {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr uint64_t kUsPerSecond = 1'000'000;

// Changes a T of the program's where it can be read and written.
template <typename T, typename Change>
void Edit(Tracee* tracee, uint64_t address, Change change) {
  T value;
  const auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), sizeof(value));
  if (address == 0 || !tracee->memory().Read(address, bytes)) return;
  change(&value);
  tracee->memory().Write(address, bytes);
}

void Add(uint64_t ns, timespec* time) {
  ns += static_cast<uint64_t>(time->tv_nsec);
  time->tv_sec += static_cast<time_t>(ns / kNsPerSecond);
  time->tv_nsec = static_cast<long>(ns % kNsPerSecond);
}

void Add(uint64_t ns, timeval* time) {
  const uint64_t us = ns / 1000 + static_cast<uint64_t>(time->tv_usec);
  time->tv_sec += static_cast<time_t>(us / kUsPerSecond);
  time->tv_usec = static_cast<suseconds_t>(us % kUsPerSecond);
}

}  // namespace

void AddEmulatedTime(int64_t number, const uint64_t* arguments, const EmulatedTime& time,
                     Tracee* tracee) {
  switch (number) {
    case SYS_clock_gettime:
      if (arguments[0] != CLOCK_PROCESS_CPUTIME_ID && arguments[0] != CLOCK_THREAD_CPUTIME_ID) {
        return;
      }
      Edit<timespec>(tracee, arguments[1], [&](timespec* reported) {
        Add(arguments[0] == CLOCK_THREAD_CPUTIME_ID ? time.thread_ns : time.process_ns, reported);
      });
      return;
    case SYS_times:
      Edit<tms>(tracee, arguments[0], [&](tms* reported) {
        const auto ticks_per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
        reported->tms_utime +=
            static_cast<clock_t>(time.process_ns / (kNsPerSecond / ticks_per_second));
      });
      return;
    case SYS_getrusage: {
      const auto who = static_cast<int>(arguments[0]);
      if (who != RUSAGE_SELF && who != RUSAGE_THREAD) return;
      Edit<rusage>(tracee, arguments[1], [&](rusage* reported) {
        Add(who == RUSAGE_THREAD ? time.thread_ns : time.process_ns, &reported->ru_utime);
      });
      return;
    }
    default:
      return;
  }
}

}  // namespace hindsight
