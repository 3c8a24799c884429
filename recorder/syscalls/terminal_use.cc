#include "recorder/syscalls/terminal_use.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

// A line that is shown briefly between two others flickers.
constexpr std::chrono::seconds kQuiet(1);

// Programs that wait for more descriptors than this count as waiting for the terminal's.
constexpr uint64_t kMaxPolled = 1024;

// /dev/tty, /dev/console and /dev/tty0 are other names of a terminal.
bool IsAlias(dev_t device) {
  return device == makedev(5, 0) || device == makedev(5, 1) || device == makedev(4, 0);
}

// Index of the argument that is the descriptor a call writes to.
std::optional<int> WrittenDescriptor(int64_t number) {
  switch (number) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_sendfile:
      return 0;
    case SYS_splice:
      return 2;
    default:
      return std::nullopt;
  }
}

std::optional<int> ReadDescriptor(int64_t number) {
  switch (number) {
    case SYS_read:
    case SYS_pread64:
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_splice:
      return 0;
    case SYS_sendfile:
      return 1;
    case SYS_epoll_ctl:
      return 2;
    default:
      return std::nullopt;
  }
}

// Whether a call to ioctl changes whose terminal it is or how it works: from then on it may not be
// possible to erase what is shown.
bool TakesTerminal(int64_t number, const uint64_t* arguments) {
  if (number != SYS_ioctl) return false;
  switch (static_cast<uint32_t>(arguments[1])) {
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
    case TCSETS2:
    case TCSETSW2:
    case TCSETSF2:
    case TCSETA:
    case TCSETAW:
    case TCSETAF:
    case TIOCSPGRP:
    case TIOCSCTTY:
    case TIOCNOTTY:
    case TIOCSTI:
      return true;
    default:
      return false;
  }
}

std::optional<uint8_t> ByteAt(const ReadMemory& read, uint64_t address) {
  uint8_t byte = 0;
  return read(address, absl::MakeSpan(&byte, 1)) ? std::optional<uint8_t>(byte) : std::nullopt;
}

// Of `written` bytes in so many iovecs.
std::optional<uint8_t> LastByteOfVector(const ReadMemory& read, uint64_t address, uint64_t count,
                                        uint64_t written) {
  for (uint64_t i = 0; i < std::min(count, kMaxIovecs); ++i) {
    std::array<uint64_t, 2> iovec = {};
    static_assert(sizeof(iovec) == kIovecBytes);
    const auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(iovec.data()), sizeof(iovec));
    if (!read(address + i * kIovecBytes, bytes)) return std::nullopt;
    if (written <= iovec[1]) return ByteAt(read, iovec[0] + written - 1);
    written -= iovec[1];
  }
  return std::nullopt;
}

// The last byte that a call has written; nullopt if that is not known.
std::optional<uint8_t> LastByte(int64_t number, const uint64_t* arguments, uint64_t written,
                                const ReadMemory& read) {
  switch (number) {
    case SYS_write:
    case SYS_pwrite64:
      return ByteAt(read, arguments[1] + written - 1);
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
      return LastByteOfVector(read, arguments[1], arguments[2], written);
    default:
      return std::nullopt;
  }
}

// The descriptors that a poll or select waits to read from; nullopt if there are too many, or they
// cannot be read. The call itself then fails or is unusual.
std::optional<std::vector<int>> PolledForInput(bool select, const uint64_t* arguments,
                                               const ReadMemory& read) {
  std::vector<int> polled;
  if (select) {
    fd_set set = {};
    const uint64_t bytes = (std::min<uint64_t>(arguments[0], FD_SETSIZE) + 63) / 64 * 8;
    if (arguments[1] == 0) return polled;
    if (!read(arguments[1], absl::MakeSpan(reinterpret_cast<uint8_t*>(&set), bytes))) {
      return std::nullopt;
    }
    for (int fd = 0; fd < FD_SETSIZE; ++fd) {
      if (FD_ISSET(fd, &set)) polled.push_back(fd);
    }
    return polled;
  }
  if (arguments[1] > kMaxPolled) return std::nullopt;
  std::vector<pollfd> entries(arguments[1]);
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<uint8_t*>(entries.data()), entries.size() * sizeof(pollfd));
  if (!entries.empty() && !read(arguments[0], bytes)) return std::nullopt;
  for (const pollfd& entry : entries) {
    if ((entry.events & (POLLIN | POLLRDNORM)) != 0) polled.push_back(entry.fd);
  }
  return polled;
}

}  // namespace

TerminalUse::TerminalUse(int fd, bool at_line_start) : at_line_start_(at_line_start) {
  struct stat status = {};
  if (isatty(fd) != 0 && fstat(fd, &status) == 0) terminal_ = status.st_rdev;
}

bool TerminalUse::IsTerminal(pid_t thread, uint64_t fd) const {
  const std::string path = absl::StrCat("/proc/", thread, "/fd/", static_cast<int32_t>(fd));
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISCHR(status.st_mode) &&
         (status.st_rdev == *terminal_ || IsAlias(status.st_rdev));
}

bool TerminalUse::WaitsForInput(pid_t thread, int64_t number, const uint64_t* arguments,
                                const ReadMemory& read) const {
  const bool select = number == SYS_select || number == SYS_pselect6;
  if (!select && number != SYS_poll && number != SYS_ppoll) return false;
  const std::optional<std::vector<int>> polled = PolledForInput(select, arguments, read);
  return !polled.has_value() || std::any_of(polled->begin(), polled->end(),
                                            [&](int fd) { return IsTerminal(thread, fd); });
}

bool TerminalUse::BeforeCall(pid_t thread, int64_t number, const uint64_t* arguments,
                             const ReadMemory& read) {
  if (!watches() || in_use_) return false;
  const std::optional<int> from = ReadDescriptor(number);
  if ((from.has_value() && IsTerminal(thread, arguments[*from])) ||
      (TakesTerminal(number, arguments) && IsTerminal(thread, arguments[0])) ||
      WaitsForInput(thread, number, arguments, read) || number == SYS_io_uring_setup) {
    in_use_ = true;
    return true;
  }
  const std::optional<int> to = WrittenDescriptor(number);
  if (!to.has_value() || !IsTerminal(thread, arguments[*to])) return false;
  was_at_line_start_ = at_line_start_;
  at_line_start_ = false;  // until it is known what was written
  return true;
}

void TerminalUse::AfterCall(pid_t thread, int64_t number, const uint64_t* arguments, int64_t result,
                            const ReadMemory& read, Clock::time_point now) {
  if (!watches() || in_use_) return;
  const std::optional<int> to = WrittenDescriptor(number);
  if (!to.has_value() || !IsTerminal(thread, arguments[*to])) return;
  if (result <= 0) {
    // Another thread's write may have come between: then that is not known either.
    at_line_start_ = std::exchange(was_at_line_start_, false);
    return;
  }
  last_write_ = now;
  at_line_start_ = LastByte(number, arguments, static_cast<uint64_t>(result), read) == '\n';
}

bool TerminalUse::MayShow(Clock::time_point now) const {
  return watches() && at_line_start() && (!last_write_.has_value() || now >= *last_write_ + kQuiet);
}

}  // namespace hindsight
