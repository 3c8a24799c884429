#include "recorder/ptrace/whole/disturbed_calls.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <tuple>

#include "base/unique_fd.h"
#include "recorder/process/process_memory.h"
#include "recorder/process/signal_sets.h"
#include "recorder/ptrace/attach.h"

namespace hindsight {
namespace {

// CF, PF, AF, ZF, SF and OF; of these a result that is zero and negative, with carry and overflow.
constexpr uint64_t kArithmeticFlags = 0x8d5, kMark = 0x8c1;

constexpr uint64_t kSyscallBytes = 2;  // of the instruction

// linux/io_uring.h
constexpr uint64_t kEnterExtArg = 1 << 3, kEnterAbsTimer = 1 << 5;
struct UringArguments {
  uint64_t signal_mask;
  uint32_t signal_mask_bytes, least_wait_us;
  uint64_t timeout;
};

// Longer ones are as good as none.
constexpr int64_t kLongestSeconds = int64_t{1} << 32;

struct Timeout {
  uint64_t ns = 0;
  int64_t result = 0;  // when it is over
};

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

template <typename T>
bool ReadValue(pid_t thread, uint64_t address, T* value) {
  return address != 0 &&
         ProcessVmMemory(thread).Read(address, {reinterpret_cast<uint8_t*>(value), sizeof(*value)});
}

std::optional<Timeout> OfTimespec(pid_t thread, uint64_t address, int64_t result) {
  timespec time;
  if (!ReadValue(thread, address, &time) || time.tv_sec < 0 || time.tv_sec > kLongestSeconds) {
    return std::nullopt;
  }
  return Timeout{
      static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec),
      result};
}

// SO_RCVTIMEO or SO_SNDTIMEO. A socket without would not have said EINTR.
std::optional<Timeout> OfSocket(pid_t process, uint64_t fd, int option, int64_t result) {
  const UniqueFd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  const UniqueFd socket(static_cast<int>(syscall(SYS_pidfd_getfd, pid_fd.get(), fd, 0)));
  timeval time = {};
  socklen_t bytes = sizeof(time);
  if (!socket.valid() || getsockopt(socket.get(), SOL_SOCKET, option, &time, &bytes) != 0 ||
      (time.tv_sec == 0 && time.tv_usec == 0) || time.tv_sec > kLongestSeconds) {
    return std::nullopt;
  }
  return Timeout{static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
                     static_cast<uint64_t>(time.tv_usec) * 1000,
                 result};
}

std::optional<Timeout> OfUring(pid_t thread, const user_regs_struct& registers) {
  UringArguments arguments;
  if ((registers.r10 & kEnterExtArg) == 0 || (registers.r10 & kEnterAbsTimer) != 0 ||
      !ReadValue(thread, registers.r8, &arguments)) {
    return std::nullopt;
  }
  return OfTimespec(thread, arguments.timeout, -ETIME);
}

// Of a call that says EINTR without a reason; nullopt: it waits for ever, or until a fixed time.
std::optional<Timeout> TimeoutOf(pid_t process, pid_t thread, const user_regs_struct& registers) {
  switch (registers.orig_rax) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait: {
      const auto ms = static_cast<int32_t>(registers.r10);
      if (ms < 0) return std::nullopt;
      return Timeout{static_cast<uint64_t>(ms) * 1'000'000, 0};
    }
    case SYS_epoll_pwait2:
      return OfTimespec(thread, registers.r10, 0);
    case SYS_semtimedop:
      return OfTimespec(thread, registers.r10, -EAGAIN);
    case SYS_rt_sigtimedwait:
      return OfTimespec(thread, registers.rdx, -EAGAIN);
    case SYS_io_getevents:
    case SYS_io_pgetevents:
      return OfTimespec(thread, registers.r8, 0);
    case SYS_io_uring_enter:
      return OfUring(thread, registers);
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
      return OfSocket(process, registers.rdi, SO_RCVTIMEO, -EAGAIN);
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
      return OfSocket(process, registers.rdi, SO_SNDTIMEO, -EAGAIN);
    case SYS_connect:
      return OfSocket(process, registers.rdi, SO_SNDTIMEO, -EINPROGRESS);
    default:
      return std::nullopt;
  }
}

// Whether a thread is about to make the call again in which it was with the registers `first`.
bool IsBefore(const user_regs_struct& first, const user_regs_struct& now) {
  return now.orig_rax == ~uint64_t{0} && now.rax == first.orig_rax &&
         now.rip == first.rip - kSyscallBytes;
}

// Whether the call that the thread was in has said EINTR for no other reason than a stop.
bool IsDisturbed(pid_t process, pid_t thread, int signal, const user_regs_struct& registers) {
  if (static_cast<int64_t>(registers.orig_rax) < 0 ||
      static_cast<int64_t>(registers.rax) != -EINTR) {
    return false;
  }
  const SignalSets sets = SignalSetsOf(process, thread);
  if (signal == 0) return sets.about_to_be_handled() == 0;
  const bool stops =
      signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
  return !stops && (sets.caught >> (signal - 1) & 1) == 0;
}

}  // namespace

bool DisturbedCalls::IsMadeAgain(pid_t thread, const user_regs_struct& now) const {
  const auto found = calls_.find(thread);
  if (found == calls_.end() || (now.eflags & kArithmeticFlags) != kMark) return false;
  const user_regs_struct& first = found->second.registers;
  const auto arguments = [](const user_regs_struct& registers) {
    return std::make_tuple(registers.rsp, registers.rdi, registers.rsi, registers.rdx,
                           registers.r10, registers.r8);
  };
  // With the same result: else it has ended.
  const bool in_it = now.orig_rax == first.orig_rax && now.rip == first.rip && now.rax == first.rax;
  return (in_it || IsBefore(first, now)) && arguments(first) == arguments(now);
}

user_regs_struct DisturbedCalls::OwnRegisters(pid_t thread,
                                              const user_regs_struct& registers) const {
  return IsMadeAgain(thread, registers) ? calls_.at(thread).registers : registers;
}

void DisturbedCalls::MakeAgain(pid_t process, pid_t thread, int signal, uint64_t stopped_ns) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) {
    calls_.erase(thread);
    return;
  }
  const bool known = IsMadeAgain(thread, registers);
  user_regs_struct again = registers;  // if it is still before it
  if (IsDisturbed(process, thread, signal, registers)) {
    again = RegistersToResumeFrom(registers, true);
  }
  if (again.orig_rax != ~uint64_t{0} || (!known && again.rip == registers.rip)) {
    calls_.erase(thread);
    return;
  }
  if (!known) {
    calls_.erase(thread);
    if (const auto timeout = TimeoutOf(process, thread, registers); timeout.has_value()) {
      calls_[thread] = {registers, stopped_ns + timeout->ns, timeout->result};
    }
  }
  const auto call = calls_.find(thread);
  if (call != calls_.end() && call->second.end_ns <= NowNs()) {
    again = call->second.registers;
    again.rax = static_cast<uint64_t>(call->second.result);
    again.orig_rax = ~uint64_t{0};
    calls_.erase(call);
  } else if (call != calls_.end()) {
    again.eflags = (registers.eflags & ~kArithmeticFlags) | kMark;
    call->second.taken = false;
  }
  ptrace(PTRACE_SETREGS, thread, nullptr, &again);
}

std::optional<uint64_t> DisturbedCalls::next_ns() const {
  std::optional<uint64_t> next;
  for (const auto& [thread, call] : calls_) {
    if (!call.taken) next = std::min(next.value_or(call.end_ns), call.end_ns);
  }
  return next;
}

std::vector<pid_t> DisturbedCalls::TakeDue(uint64_t now_ns) {
  std::vector<pid_t> due;
  for (auto& [thread, call] : calls_) {
    if (call.taken || call.end_ns > now_ns) continue;
    call.taken = true;
    due.push_back(thread);
  }
  return due;
}

}  // namespace hindsight
