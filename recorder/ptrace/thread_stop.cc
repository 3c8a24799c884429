#include "recorder/ptrace/thread_stop.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

// A stop comes within microseconds, or the thread is in a long uninterruptible call.
constexpr long kFirstPauseNs = 20'000, kLongestPauseNs = 2'000'000;

// True: that was the stop waited for.
bool Interpret(pid_t thread, int status, SeizedStop* stop) {
  if (!WIFSTOPPED(status)) {
    *stop = {.kind = SeizedStop::Kind::kGone, .wait_status = status};
    return true;
  }
  const int event = status >> 16;
  const int signal = WSTOPSIG(status);
  if (event == PTRACE_EVENT_STOP) {
    *stop = {.kind = SeizedStop::Kind::kStopped, .group_stop = signal == SIGTRAP ? 0 : signal};
    return true;
  }
  if (event != 0) {
    *stop = {.kind = SeizedStop::Kind::kEvent, .event = event};
    return true;
  }
  // Any stop takes back the request to stop; it is asked again before it can run.
  ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  ptrace(PTRACE_CONT, thread, nullptr, signal == (SIGTRAP | 0x80) ? 0 : signal);
  return false;
}

// Whether `thread` is a child process of this one that has ended: somebody here waits for its
// status.
bool HasEndedAsOurChild(pid_t thread) {
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(thread), &info,
             WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0 ||
      info.si_pid != thread || info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) {
    return false;
  }
  std::FILE* file = std::fopen(absl::StrCat("/proc/", thread, "/status").c_str(), "re");
  if (file == nullptr) return false;
  char line[256];
  int process = 0, parent = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    std::sscanf(line, "Tgid: %d", &process);
    std::sscanf(line, "PPid: %d", &parent);
  }
  std::fclose(file);
  return process == thread && parent == getpid();
}

// False if it has ended, which is left to whoever records it to wait for.
bool WaitForAnyStop(pid_t thread, int* status) {
  constexpr int kPeek = WSTOPPED | WEXITED | WNOWAIT | __WALL;
  siginfo_t stop = {};
  while (waitid(P_PID, thread, &stop, kPeek) < 0) {
    if (errno != EINTR) return false;
  }
  if (stop.si_code != CLD_TRAPPED && stop.si_code != CLD_STOPPED) return false;
  return waitpid(thread, status, __WALL) == thread && WIFSTOPPED(*status);
}

}  // namespace

SeizedStop WaitForSeizedStop(pid_t thread, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  long pause_ns = kFirstPauseNs;
  while (true) {
    int status;
    if (HasEndedAsOurChild(thread)) return {.kind = SeizedStop::Kind::kGone};
    const pid_t got = waitpid(thread, &status, __WALL | WNOHANG);
    if (got == thread) {
      SeizedStop stop;
      if (Interpret(thread, status, &stop)) return stop;
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

std::optional<int> LeaveStepTrap(pid_t thread) {
  if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 ||
      ptrace(PTRACE_CONT, thread, nullptr, 0) != 0) {
    return std::nullopt;  // gone: the next stop will tell
  }
  int status = 0;
  if (!WaitForAnyStop(thread, &status)) return std::nullopt;
  const bool expected =
      WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
  return expected ? std::nullopt : std::optional<int>(status);
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
    int status = 0;
    alive = ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr) == 0 &&
            WaitForAnyStop(thread, &status) &&
            ptrace(PTRACE_GETREGS, thread, nullptr, &registers) == 0;
    // No mask keeps this one out. (The stop it leads to has bits from 16 on.)
    if (alive && status >> 8 == SIGSTOP) {
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

bool SharesMemory(pid_t a, pid_t b, bool otherwise) {
  const long result = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
  return result < 0 ? otherwise : result == 0;
}

SignalSets SignalSetsOf(pid_t process, pid_t thread) {
  SignalSets sets;
  const std::string path = absl::StrCat("/proc/", process, "/task/", thread, "/status");
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return sets;
  char line[256];
  unsigned long long value;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    char name[8];
    if (std::sscanf(line, "%6[A-Za-z]: %llx", name, &value) != 2) continue;
    if (std::strcmp(name, "SigPnd") == 0 || std::strcmp(name, "ShdPnd") == 0) {
      sets.pending |= value;
    } else if (std::strcmp(name, "SigBlk") == 0) {
      sets.blocked = value;
    } else if (std::strcmp(name, "SigCgt") == 0) {
      sets.caught = value;
      sets.known = true;
    }
  }
  std::fclose(file);
  return sets;
}

}  // namespace hindsight
