#include "recorder/ptrace/whole/disturbed_calls.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "absl/types/span.h"
#include "recorder/process/process_memory.h"
#include "recorder/process/signal_sets.h"
#include "recorder/ptrace/attach.h"
#include "recorder/syscalls/call_timeout.h"

namespace hindsight {
namespace {

// CF, PF, AF, ZF, SF and OF; of these a result that is zero and negative, with carry and overflow.
constexpr uint64_t kArithmeticFlags = 0x8d5, kMark = 0x8c1;

constexpr uint64_t kSyscallBytes = 2;  // of the instruction

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::optional<CallTimeout> TimeoutOf(pid_t process, pid_t thread,
                                     const user_regs_struct& registers) {
  const uint64_t arguments[] = {registers.rdi, registers.rsi, registers.rdx,
                                registers.r10, registers.r8,  registers.r9};
  return TimeoutOfCall(process, static_cast<int64_t>(registers.orig_rax), arguments,
                       [thread](uint64_t address, absl::Span<uint8_t> out) {
                         return ProcessVmMemory(thread).Read(address, out);
                       });
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
