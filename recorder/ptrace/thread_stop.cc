#include "recorder/ptrace/thread_stop.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "recorder/process/process_facts.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

// A stop comes within microseconds, or the thread is in a long uninterruptible call.
constexpr long kFirstPauseNs = 20'000, kLongestPauseNs = 2'000'000;

// True: that was the stop waited for.
bool Interpret(pid_t thread, const WaitStatus& status, SeizedStop* stop) {
  if (!status.stopped()) {
    *stop = {.kind = SeizedStop::Kind::kGone, .wait_status = status.raw};
    return true;
  }
  if (status.is_event_stop()) {
    *stop = {.kind = SeizedStop::Kind::kStopped, .group_stop = status.group_stop()};
    return true;
  }
  if (status.kind == WaitStatus::Kind::kEvent) {
    *stop = {.kind = SeizedStop::Kind::kEvent, .event = status.event};
    return true;
  }
  ContinueToStop(thread, status.signal_to_deliver());
  return false;
}

// Whether the next that a wait would report is the thread's end.
bool HasEnded(pid_t thread) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(thread), &info,
                WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) == 0 &&
         info.si_pid == thread && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED;
}

// This process waits for its status.
bool IsOurChild(pid_t thread) {
  return ProcessOf(thread) == thread && StatusNumber(thread, "PPid:") == getpid();
}

}  // namespace

SeizedStop WaitForSeizedStop(pid_t thread, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  long pause_ns = kFirstPauseNs;
  while (true) {
    int status;
    if (HasEnded(thread) && IsOurChild(thread)) return {.kind = SeizedStop::Kind::kGone};
    const pid_t got = waitpid(thread, &status, __WALL | WNOHANG);
    if (got == thread) {
      SeizedStop stop;
      if (Interpret(thread, WaitStatus::Decode(status), &stop)) return stop;
      pause_ns = kFirstPauseNs;
      continue;
    }
    if (got < 0 && errno != EINTR) return {.kind = SeizedStop::Kind::kGone};
    if (Clock::now() >= deadline) return {.kind = SeizedStop::Kind::kTimedOut};
    const timespec pause = {0, pause_ns};
    nanosleep(&pause, nullptr);
    if (pause_ns < kLongestPauseNs) pause_ns *= 2;
  }
}

std::optional<WaitStatus> WaitForAnyStop(pid_t thread) {
  constexpr int kPeek = WSTOPPED | WEXITED | WNOWAIT | __WALL;
  siginfo_t stop = {};
  while (waitid(P_PID, thread, &stop, kPeek) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  if (stop.si_code != CLD_TRAPPED && stop.si_code != CLD_STOPPED) return std::nullopt;
  const std::optional<WaitStatus> status = WaitForThread(thread);
  return status.has_value() && status->stopped() ? status : std::nullopt;
}

std::optional<int> LeaveStepTrap(pid_t thread) {
  if (!ContinueToStop(thread, 0)) return std::nullopt;  // gone: the next stop will show it
  const std::optional<WaitStatus> status = WaitForAnyStop(thread);
  if (!status.has_value() || (status->is_event_stop() && status->group_stop() == 0)) {
    return std::nullopt;
  }
  return status->raw;
}

bool ContinueToStop(pid_t thread, int signal) {
  // In this order: a stop that is reported takes back the request for one.
  return ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
         ptrace(PTRACE_CONT, thread, nullptr, signal) == 0;
}

void Detach(pid_t thread, int signal) { ptrace(PTRACE_DETACH, thread, nullptr, signal); }

bool TakeEnd(pid_t thread) {
  if (!HasEnded(thread)) return false;
  if (!IsOurChild(thread)) waitpid(thread, nullptr, __WALL | WNOHANG);
  return true;
}

void DetachOrTakeEnd(pid_t thread) {
  if (ptrace(PTRACE_DETACH, thread, nullptr, nullptr) == 0) return;
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(thread), &info, WEXITED | WNOWAIT | __WALL) != 0 &&
         errno == EINTR) {
  }
  TakeEnd(thread);
}

bool StepWhile(pid_t thread, int max_steps, const std::function<bool(uint64_t pc)>& inside) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return false;
  if (!inside(registers.rip)) return true;
  // Only the step's SIGTRAP may come: blocked as well, the kernel would force it and take the
  // program's handler away.
  uint64_t mask = 0;
  const uint64_t only_traps = ~(uint64_t{1} << (SIGTRAP - 1));
  ptrace(PTRACE_GETSIGMASK, thread, sizeof(mask), &mask);
  ptrace(PTRACE_SETSIGMASK, thread, sizeof(only_traps), &only_traps);
  bool alive = true, sigstop = false;
  for (int steps = 0; steps < max_steps && alive && inside(registers.rip);) {
    std::optional<WaitStatus> status;
    alive = ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr) == 0 &&
            (status = WaitForAnyStop(thread)).has_value() &&
            ptrace(PTRACE_GETREGS, thread, nullptr, &registers) == 0;
    // No mask keeps this one out.
    if (alive && status->signal_to_deliver() == SIGSTOP) {
      sigstop = true;
    } else {
      ++steps;
    }
  }
  ptrace(PTRACE_SETSIGMASK, thread, sizeof(mask), &mask);
  if (alive) LeaveStepTrap(thread);
  if (sigstop) syscall(SYS_tkill, thread, SIGSTOP);
  return alive && !inside(registers.rip);
}

}  // namespace hindsight
