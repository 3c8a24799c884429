#include "recorder/ptrace/exec_hold.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>

#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {
namespace {

// A running thread stops within microseconds.
constexpr std::chrono::milliseconds kPatience(1000);

// The stop of a traced thread, if there is one; never its end.
bool TakeStop(pid_t thread, WaitStatus* status) {
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(thread), &info, WSTOPPED | WNOHANG | __WALL) != 0 ||
      info.si_pid != thread) {
    return false;
  }
  *status = WaitStatus::Decode((info.si_status << 8) | 0x7f);
  return true;
}

}  // namespace

std::unique_ptr<ExecHold> ExecHold::Take(pid_t process, pid_t thread) {
  constexpr uintptr_t kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;
  if (ptrace(PTRACE_SEIZE, thread, nullptr, kOptions) != 0) return nullptr;
  return std::unique_ptr<ExecHold>(new ExecHold(process, thread));
}

ExecHold::~ExecHold() {
  if (!held_) return;
  const pid_t thread = executing_ ? process_ : thread_;
  if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return;
  if (WaitForSeizedStop(thread, kPatience).kind == SeizedStop::Kind::kGone) return;
  Detach(thread);
}

ExecHold::State ExecHold::Poll() {
  WaitStatus status;
  pid_t thread = process_;
  if (!TakeStop(thread, &status)) {
    thread = thread_;
    const bool other = !executing_ && thread_ != process_;
    if (!other || !TakeStop(thread, &status)) {
      const bool ended = (other && TakeEnd(thread_)) || TakeEnd(process_);
      return ended || kill(process_, 0) != 0 ? State::kGone : State::kNotYet;
    }
  }
  if (status.is_exec()) {
    executing_ = true;
  } else if (executing_ && status.kind == WaitStatus::Kind::kSyscall) {
    return State::kAtStart;
  }
  ptrace(executing_ ? PTRACE_SYSCALL : PTRACE_CONT, thread, nullptr, status.signal_to_deliver());
  return State::kNotYet;
}

}  // namespace hindsight
