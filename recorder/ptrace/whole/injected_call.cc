#include "recorder/ptrace/whole/injected_call.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/whole/way_back.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kStopTimeout(5000);

absl::Status Gone(pid_t thread) {
  return absl::UnavailableError(absl::StrCat("thread ", thread, " is gone"));
}

// `stack`: 0: as it is.
user_regs_struct RegistersOf(const CallToInject& call, const CallSite& site, uint64_t stack,
                             const user_regs_struct& saved) {
  user_regs_struct registers = saved;
  registers.rip = site.instruction;
  if (stack != 0) registers.rsp = stack;
  registers.orig_rax = ~uint64_t{0};
  registers.rax = static_cast<uint64_t>(call.number);
  registers.rdi = call.arguments[0];
  registers.rsi = call.arguments[1];
  registers.rdx = call.arguments[2];
  registers.r10 = call.arguments[3];
  registers.r8 = call.arguments[4];
  registers.r9 = call.arguments[5];
  return registers;
}

// A stopped thread with the registers and the mask of somebody else's calls.
class BorrowedThread {
 public:
  BorrowedThread(pid_t thread, const CallSite& site) : thread_(thread), site_(site) {}

  // It has other registers before it has another mask, and its own mask before its registers: as
  // soon as it has not both of its own, it would find its way back.
  bool Borrow() {
    const uint64_t all = ~uint64_t{0};
    if (ptrace(PTRACE_GETREGS, thread_, nullptr, &saved_) != 0 ||
        ptrace(PTRACE_GETSIGMASK, thread_, sizeof(mask_), &mask_) != 0) {
      return false;
    }
    way_back_.emplace(thread_, site_, saved_, mask_);
    const user_regs_struct idle = RegistersOf({SYS_getpid}, site_, way_back_->stack(), saved_);
    return ptrace(PTRACE_SETREGS, thread_, nullptr, &idle) == 0 &&
           ptrace(PTRACE_SETSIGMASK, thread_, sizeof(all), &all) == 0;
  }

  // Runs it from before the call to its end. False: it is gone.
  bool Call(const CallToInject& call, InjectedResult* result) {
    const user_regs_struct before = RegistersOf(call, site_, way_back_->stack(), saved_);
    if (ptrace(PTRACE_SETREGS, thread_, nullptr, &before) != 0) return false;
    for (int calls = 0; calls < 2;) {
      if (ptrace(PTRACE_SYSCALL, thread_, nullptr, nullptr) != 0) return false;
      const std::optional<WaitStatus> status = WaitForAnyStop(thread_);
      if (!status.has_value()) return false;
      if (status->kind == WaitStatus::Kind::kSyscall) ++calls;
      if (status->kind == WaitStatus::Kind::kEvent && status->event == PTRACE_EVENT_CLONE) {
        result->task = TaskOfEvent(thread_);
      }
      // No mask keeps this one out.
      if (status->signal_to_deliver() == SIGSTOP) sigstop_ = true;
    }
    user_regs_struct after;
    if (ptrace(PTRACE_GETREGS, thread_, nullptr, &after) != 0) return false;
    result->value = static_cast<int64_t>(after.rax);
    return true;
  }

  // False: it is gone.
  bool GiveBack() {
    const bool stopped =
        ContinueToStop(thread_, 0) &&
        WaitForSeizedStop(thread_, kStopTimeout).kind == SeizedStop::Kind::kStopped;
    const bool restored = ptrace(PTRACE_SETSIGMASK, thread_, sizeof(mask_), &mask_) == 0 &&
                          ptrace(PTRACE_SETREGS, thread_, nullptr, &saved_) == 0;
    way_back_.reset();
    if (sigstop_) syscall(SYS_tkill, thread_, SIGSTOP);
    return stopped && restored;
  }

 private:
  const pid_t thread_;
  const CallSite site_;
  std::optional<WayBack> way_back_;
  user_regs_struct saved_ = {};
  uint64_t mask_ = 0;
  bool sigstop_ = false;
};

}  // namespace

absl::StatusOr<InjectedResult> InjectCall(pid_t thread, const CallSite& site, int64_t number,
                                          const std::array<uint64_t, 6>& arguments) {
  BorrowedThread borrowed(thread, site);
  InjectedResult result;
  if (!borrowed.Borrow()) return Gone(thread);
  const bool made = borrowed.Call({number, arguments}, &result);
  if (!borrowed.GiveBack() || !made) return Gone(thread);
  return result;
}

absl::StatusOr<std::vector<int64_t>> InjectCalls(pid_t thread, const CallSite& site,
                                                 absl::Span<const CallToInject> calls) {
  BorrowedThread borrowed(thread, site);
  std::vector<int64_t> values;
  if (!borrowed.Borrow()) return Gone(thread);
  bool made = true;
  for (const CallToInject& call : calls) {
    InjectedResult result;
    made = made && borrowed.Call(call, &result);
    values.push_back(result.value);
  }
  if (!borrowed.GiveBack() || !made) return Gone(thread);
  return values;
}

}  // namespace hindsight
