#include "recorder/ptrace/breakpoint_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

constexpr uint8_t kInt3 = 0xcc;
constexpr size_t kMaxPlaces = 65536;

absl::Status Failed(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("guarding breakpoints: ", what, ": ", strerror(errno)));
}

}  // namespace

// Zeros at first; takes memory as it is filled.
struct BreakpointGuard::Table {
  struct Place {
    uint64_t address;
    uint8_t byte;
  };
  std::atomic<size_t> size;
  Place places[kMaxPlaces];
};

namespace {

// In the guard: system calls only, since the maker's other threads are missing.
template <typename Table>
[[noreturn]] void Guard(const Table& table, int memory, int maker) {
  // A session of its own: a signal to the recorder's does not end this.
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  prctl(PR_SET_NAME, "hindsight-guard");
  const int low = std::min(memory, maker), high = std::max(memory, maker);
  if (low > 0) syscall(SYS_close_range, 0, low - 1, 0);
  if (high > low + 1) syscall(SYS_close_range, low + 1, high - 1, 0);
  syscall(SYS_close_range, high + 1, ~0U, 0);
  char nothing;
  while (read(maker, &nothing, 1) < 0 && errno == EINTR) {
  }
  const size_t size = table.size.load(std::memory_order_acquire);
  for (size_t i = 0; i < size; ++i) {
    const auto at = static_cast<off_t>(table.places[i].address);
    uint8_t byte;
    if (pread(memory, &byte, 1, at) != 1 || byte != kInt3) continue;
    [[maybe_unused]] const ssize_t done = pwrite(memory, &table.places[i].byte, 1, at);
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BreakpointGuard>> BreakpointGuard::Start(const ProcMemFile& memory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Failed("pipe");
  const UniqueFd noticing(ends[0]);
  UniqueFd alive(ends[1]);
  void* const shared =
      mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Failed("mmap");
  auto* const table = static_cast<Table*>(shared);
  // The guard is not a child of this process, which may wait for all its children.
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t guard = fork();
    if (guard == 0) Guard(*table, memory.fd(), noticing.get());
    _exit(guard < 0 ? 1 : 0);
  }
  int status = -1;
  while (parent > 0 && waitpid(parent, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    munmap(shared, sizeof(Table));
    return Failed("fork");
  }
  return std::unique_ptr<BreakpointGuard>(new BreakpointGuard(table, std::move(alive)));
}

BreakpointGuard::~BreakpointGuard() {
  table_->size.store(0, std::memory_order_release);
  munmap(table_, sizeof(Table));
}

bool BreakpointGuard::Add(uint64_t address, uint8_t byte) {
  const size_t size = table_->size.load(std::memory_order_relaxed);
  Table::Place* const end = table_->places + size;
  Table::Place* const place = std::find_if(
      table_->places, end, [&](const Table::Place& known) { return known.address == address; });
  if (place == end && size == kMaxPlaces) return false;
  *place = {address, byte};
  if (place == end) table_->size.store(size + 1, std::memory_order_release);
  return true;
}

}  // namespace hindsight
