#include "confine/memory_budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace hindsight {
namespace {

// If pages are filled at some GB a second, the limit is exceeded by some 100 MB in this time.
constexpr std::chrono::milliseconds kInterval(50);

std::string ReadAll(int fd) {
  char text[4096];  // smaller than either file grows
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  return std::string(text, size < 0 ? 0 : static_cast<size_t>(size));
}

// The limit that a file of a cgroup holds; "max", or no file, means none.
uint64_t LimitIn(const char* path) {
  uint64_t limit = UINT64_MAX;
  std::ifstream file(path);
  return file >> limit ? limit : UINT64_MAX;
}

}  // namespace

uint64_t DefaultMemoryLimit() {
  uint64_t bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  bytes = std::min(bytes, LimitIn("/sys/fs/cgroup/memory.max"));
  bytes = std::min(bytes, LimitIn("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return bytes / 4 * 3;
}

absl::StatusOr<MemoryMeter> MemoryMeter::Open() {
  UniqueFd statm(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  if (!statm.valid()) return absl::ErrnoToStatus(errno, "/proc/self/statm");
  UniqueFd rollup(open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC));
  return MemoryMeter(std::move(statm), std::move(rollup));
}

uint64_t MemoryMeter::UpperBound() const {
  const std::string text = ReadAll(statm_.get());
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  uint64_t pages = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &pages)) return 0;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t MemoryMeter::Used() const {
  uint64_t used = 0;
  bool found = false;
  const std::string text = rollup_.valid() ? ReadAll(rollup_.get()) : "";
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    // Proportional: a page mapped twice in this process is counted once.
    if (!absl::ConsumePrefix(&line, "Pss_Anon:") && !absl::ConsumePrefix(&line, "Pss_Shmem:")) {
      continue;
    }
    uint64_t kilobytes = 0;
    absl::ConsumeSuffix(&line, "kB");
    if (!absl::SimpleAtoi(line, &kilobytes)) continue;
    used += kilobytes * 1024;
    found = true;
  }
  return found ? used : UpperBound();
}

void WatchMemory(MemoryMeter meter, uint64_t limit_bytes, std::function<void()> exceeded) {
  // Signals are for the threads that wait for them, or the first one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([meter = std::move(meter), limit_bytes, exceeded = std::move(exceeded)] {
    for (;;) {
      const auto begin = std::chrono::steady_clock::now();
      if (meter.UpperBound() > limit_bytes && meter.Used() > limit_bytes) break;
      // Measuring takes a tenth of one processor at most.
      const auto taken = std::chrono::steady_clock::now() - begin;
      std::this_thread::sleep_for(std::max<std::chrono::nanoseconds>(kInterval, 10 * taken));
    }
    exceeded();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace hindsight
