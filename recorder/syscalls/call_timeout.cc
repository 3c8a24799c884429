#include "recorder/syscalls/call_timeout.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "absl/types/span.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

// linux/io_uring.h
constexpr uint64_t kEnterExtArg = 1 << 3, kEnterAbsTimer = 1 << 5;
struct UringArguments {
  uint64_t signal_mask;
  uint32_t signal_mask_bytes, least_wait_us;
  uint64_t timeout;
};

// Longer ones are as good as none.
constexpr int64_t kLongestSeconds = int64_t{1} << 32;

template <typename T>
bool ReadValue(const ReadMemory& read, uint64_t address, T* value) {
  return address != 0 &&
         read(address, absl::MakeSpan(reinterpret_cast<uint8_t*>(value), sizeof(*value)));
}

std::optional<CallTimeout> OfMilliseconds(uint64_t argument, int64_t result) {
  const auto ms = static_cast<int32_t>(argument);
  if (ms < 0) return std::nullopt;
  return CallTimeout{static_cast<uint64_t>(ms) * 1'000'000, result};
}

std::optional<CallTimeout> OfTimespec(const ReadMemory& read, uint64_t address, int64_t result) {
  timespec time;
  if (!ReadValue(read, address, &time) || time.tv_sec < 0 || time.tv_sec > kLongestSeconds) {
    return std::nullopt;
  }
  return CallTimeout{
      static_cast<uint64_t>(time.tv_sec) * kNsPerSecond + static_cast<uint64_t>(time.tv_nsec),
      result};
}

UniqueFd CopyOf(pid_t process, uint64_t fd) {
  const UniqueFd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, pid_fd.get(), fd, 0)));
}

// `option`: SO_RCVTIMEO or SO_SNDTIMEO. A socket without would not have said EINTR.
std::optional<CallTimeout> OfSocket(const UniqueFd& socket, int option, int64_t result) {
  timeval time = {};
  socklen_t bytes = sizeof(time);
  if (!socket.valid() || getsockopt(socket.get(), SOL_SOCKET, option, &time, &bytes) != 0 ||
      (time.tv_sec == 0 && time.tv_usec == 0) || time.tv_sec > kLongestSeconds) {
    return std::nullopt;
  }
  return CallTimeout{static_cast<uint64_t>(time.tv_sec) * kNsPerSecond +
                         static_cast<uint64_t>(time.tv_usec) * 1000,
                     result};
}

// In the family of local sockets a connection is there at once, or there was no room for it.
std::optional<CallTimeout> OfConnect(const UniqueFd& socket) {
  int domain = 0;
  socklen_t bytes = sizeof(domain);
  getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes);
  return OfSocket(socket, SO_SNDTIMEO, domain == AF_UNIX ? -EAGAIN : -EINPROGRESS);
}

std::optional<CallTimeout> OfUring(const ReadMemory& read, uint64_t flags, uint64_t address) {
  UringArguments arguments;
  if ((flags & kEnterExtArg) == 0 || (flags & kEnterAbsTimer) != 0 ||
      !ReadValue(read, address, &arguments)) {
    return std::nullopt;
  }
  return OfTimespec(read, arguments.timeout, -ETIME);
}

}  // namespace

std::optional<CallTimeout> TimeoutOfCall(pid_t process, int64_t number, const uint64_t* arguments,
                                         const ReadMemory& read) {
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return OfMilliseconds(arguments[3], 0);
    case SYS_epoll_pwait2:
      return OfTimespec(read, arguments[3], 0);
    case SYS_semtimedop:
      return OfTimespec(read, arguments[3], -EAGAIN);
    case SYS_rt_sigtimedwait:
      return OfTimespec(read, arguments[2], -EAGAIN);
    case SYS_io_getevents:
    case SYS_io_pgetevents:
      return OfTimespec(read, arguments[4], 0);
    case SYS_io_uring_enter:
      return OfUring(read, arguments[3], arguments[4]);
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
      return OfSocket(CopyOf(process, arguments[0]), SO_RCVTIMEO, -EAGAIN);
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
      return OfSocket(CopyOf(process, arguments[0]), SO_SNDTIMEO, -EAGAIN);
    case SYS_connect:
      return OfConnect(CopyOf(process, arguments[0]));
    default:
      return std::nullopt;
  }
}

}  // namespace hindsight
