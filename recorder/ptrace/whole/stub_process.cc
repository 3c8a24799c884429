#include "recorder/ptrace/whole/stub_process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "isa/host_registers.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/signal_sets.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kStopTimeout(5000);

// fork, with the pid that is wanted if it can be had.
pid_t ForkAs(pid_t wanted) {
  clone_args arguments = {};
  arguments.exit_signal = SIGCHLD;
  if (wanted > 0) {
    arguments.set_tid = reinterpret_cast<uint64_t>(&wanted);
    arguments.set_tid_size = 1;
    const long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));
    if (pid >= 0) return static_cast<pid_t>(pid);
  }
  return fork();
}

// In the child: only async-signal-safe calls.
[[noreturn]] void ExecWhenToldTo(int go_fd, int error_fd, pid_t parent, int64_t personality_bits,
                                 const char* path, char** argv) {
  char byte;
  char* environment[] = {nullptr};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || read(go_fd, &byte, 1) != 1) _exit(127);
  if (personality_bits >= 0) personality(static_cast<unsigned long>(personality_bits));
  syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
  execve(path, argv, environment);
  execve("/proc/self/exe", argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

absl::Status NotStarted(const char* what) {
  return absl::PermissionDeniedError(
      absl::StrCat(what, ": ", strerror(errno), " (is ptrace allowed here?)"));
}

// Brings the seized child from before its execve to before the first instruction after it.
absl::Status RunToEndOfExec(pid_t pid) {
  bool executed = false;
  while (true) {
    const std::optional<WaitStatus> status = WaitForAnyStop(pid);
    if (!status.has_value()) return absl::PermissionDeniedError("no program can be executed");
    if (status->is_exec()) executed = true;
    if (status->kind == WaitStatus::Kind::kSyscall && executed) break;
    const auto request = executed ? PTRACE_SYSCALL : PTRACE_CONT;
    if (ptrace(request, pid, nullptr, status->signal_to_deliver()) != 0) {
      return NotStarted("ptrace");
    }
  }
  if (!ContinueToStop(pid, 0) || !AwaitNewTask(pid)) return NotStarted("ptrace");
  return absl::OkStatus();
}

}  // namespace

bool AwaitNewTask(pid_t task) {
  return WaitForSeizedStop(task, kStopTimeout).kind == SeizedStop::Kind::kStopped;
}

// The end of a traced thread is its tracer's to wait for; the process's comes after that of all.
void KillAndReap(pid_t process, const std::vector<pid_t>& threads) {
  kill(process, SIGKILL);
  const auto reap = [](pid_t task) {
    int status = 0;
    while (true) {
      const pid_t waited = waitpid(task, &status, __WALL);
      if (waited < 0 && errno != EINTR) return;  // not ours
      if (waited == task && !WaitStatus::Decode(status).stopped()) return;
    }
  };
  for (const pid_t thread : threads) {
    if (thread != process) reap(thread);
  }
  reap(process);
}

absl::StatusOr<pid_t> StartStub(const StubRequest& request) {
  int go[2], error[2];
  if (pipe2(go, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("no pipe can be made");
  UniqueFd go_read(go[0]), go_write(go[1]);
  if (pipe2(error, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("no pipe can be made");
  UniqueFd error_read(error[0]), error_write(error[1]);
  std::vector<char*> argv;
  for (const std::string& argument : request.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = ForkAs(request.pid);
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("fork: ", strerror(errno)));
  if (pid == 0) {
    ExecWhenToldTo(go[0], error[1], parent, request.personality, request.executable.c_str(),
                   argv.data());
  }
  absl::Status status;
  const uintptr_t options =
      PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE;
  if (ptrace(PTRACE_SEIZE, pid, nullptr, options) != 0) {
    status = NotStarted("PTRACE_SEIZE");
  } else if (write(go_write.get(), "g", 1) != 1) {
    status = NotStarted("write");
  } else {
    status = RunToEndOfExec(pid);
  }
  if (status.ok()) return pid;
  KillAndReap(pid, {});
  return status;
}

bool SetThreadRegisters(pid_t thread, const RegisterFile& registers, int64_t system_call,
                        CallUnderWay call) {
  user_regs_struct general;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &general) != 0) return false;
  RegistersToGeneral(registers, &general);
  if (system_call >= 0) {
    general.orig_rax = static_cast<uint64_t>(system_call);
  }
  if (system_call >= 0 && call == CallUnderWay::kIsMadeAgain) {
    general = RegistersToResumeFrom(general, /*call_may_fail=*/true);
    // The kernel's own memory of the call (restart_syscall) was that of another thread.
    if (general.rip != registers.rip) general.rax = static_cast<uint64_t>(system_call);
    general.orig_rax = ~uint64_t{0};
  }
  std::vector<uint8_t> image(XstateBytes());
  iovec buffer = {image.data(), image.size()};
  if (image.empty()) {
    user_fpregs_struct vectors;
    if (ptrace(PTRACE_GETFPREGS, thread, nullptr, &vectors) != 0) return false;
    RegistersToVectors(registers, &vectors);
    if (ptrace(PTRACE_SETFPREGS, thread, nullptr, &vectors) != 0) return false;
  } else {
    if (ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &buffer) != 0) return false;
    RegistersToXstate(registers, absl::MakeSpan(image));
    if (ptrace(PTRACE_SETREGSET, thread, NT_X86_XSTATE, &buffer) != 0) return false;
  }
  return ptrace(PTRACE_SETREGS, thread, nullptr, &general) == 0;
}

bool SetThreadMask(pid_t thread, uint64_t blocked) {
  return ptrace(PTRACE_SETSIGMASK, thread, sizeof(blocked), &blocked) == 0;
}

bool BringToSignal(pid_t thread, int signal, uint64_t blocked) {
  const uint64_t bit = uint64_t{1} << (signal - 1);
  if ((SignalSetsOf(ProcessOf(thread), thread).pending & bit) == 0) return false;
  if (!SetThreadMask(thread, ~bit) || ptrace(PTRACE_CONT, thread, nullptr, nullptr) != 0) {
    return false;
  }
  const std::optional<WaitStatus> status = WaitForAnyStop(thread);
  return status.has_value() && status->kind == WaitStatus::Kind::kSignal &&
         status->signal == signal && SetThreadMask(thread, blocked);
}

bool DropSignal(pid_t thread) { return ContinueToStop(thread, 0) && AwaitNewTask(thread); }

}  // namespace hindsight
