#include "recorder/ptrace/whole/process_copy.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/thread_facts.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/whole/injected_call.h"
#include "recorder/ptrace/whole/precedence.h"
#include "recorder/ptrace/whole/thread_state.h"

namespace hindsight {
namespace {

constexpr uintptr_t kCallOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
constexpr uintptr_t kOwnOptions = kCallOptions | PTRACE_O_EXITKILL;
constexpr std::chrono::milliseconds kStopTimeout(5000);

// A stack that is none: should a task ever run, it ends at its first instruction.
constexpr uint64_t kNoStack = 16;

// linux/close_range.h
constexpr uint64_t kCloseRangeUnshare = 1 << 1;

void KillAndReap(pid_t task) {
  kill(task, SIGKILL);
  int status;
  while (true) {
    const pid_t got = waitpid(task, &status, __WALL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || !WIFSTOPPED(status)) return;
  }
}

// A task that InjectCall has made, brought to its stop; kills it unless it is taken.
class NewTask {
 public:
  static absl::StatusOr<NewTask> Make(pid_t maker, const CallSite& site, uint64_t flags) {
    ASSIGN_OR_RETURN(const InjectedResult result,
                     InjectCall(maker, site, SYS_clone, {flags, kNoStack}));
    if (result.value < 0 || result.task == 0) {
      return absl::ResourceExhaustedError(absl::StrCat("the process cannot be copied: ",
                                                       strerror(static_cast<int>(-result.value))));
    }
    NewTask task(result.task);
    if (WaitForSeizedStop(result.task, kStopTimeout).kind != SeizedStop::Kind::kStopped ||
        ptrace(PTRACE_SETOPTIONS, result.task, nullptr, kOwnOptions) != 0) {
      return absl::UnavailableError("the copy of the process is gone");
    }
    return task;
  }
  NewTask(NewTask&& other) noexcept : pid_(other.Take()) {}
  NewTask& operator=(NewTask&&) = delete;
  ~NewTask() {
    if (pid_ != 0) KillAndReap(pid_);
  }
  pid_t pid() const { return pid_; }
  pid_t Take() { return std::exchange(pid_, 0); }

 private:
  explicit NewTask(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

// A thread in a restartable sequence would not be sent back to its start, one in a system call with
// a timeout or a signal mask of its own has more to lose.
int Unfitness(pid_t thread) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return 3;
  if (!CanMakeCalls(thread)) return 2;
  return static_cast<int64_t>(registers.orig_rax) >= 0 ? 1 : 0;
}

pid_t ChooseThread(const ProcessStop& stop) {
  pid_t best = 0;
  int least = 3;
  for (const StoppedThread& stopped : stop.threads()) {
    const int unfitness = Unfitness(stopped.thread);
    if (unfitness >= least) continue;
    least = unfitness;
    best = stopped.thread;
    if (least == 0) break;
  }
  return best;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessCopy>> ProcessCopy::Make(const ProcessStop& stop) {
  const pid_t thread = ChooseThread(stop);
  if (thread == 0) return absl::UnavailableError("the process is gone");
  const CallSite& site = stop.call_site();
  if (site.instruction == 0) return absl::UnavailableError("the process makes no system calls");
  const CallSite of_copies = {site.instruction, 0};  // they end with their tracer
  const bool ours = StatusNumber(stop.process(), "PPid:") == getpid();
  const uint64_t parent = ours ? CLONE_PARENT : 0;
  if (ptrace(PTRACE_SETOPTIONS, thread, nullptr, kCallOptions) != 0) {
    return absl::UnavailableError("the process is gone");
  }
  pid_t courier_pid = 0;
  absl::StatusOr<std::unique_ptr<ProcessCopy>> copy = absl::UnavailableError("no copy");
  {
    ASSIGN_OR_RETURN(NewTask courier, NewTask::Make(thread, site, CLONE_VM | CLONE_FILES | parent));
    courier_pid = courier.pid();
    // Not for the program's own thread: it would keep that, were this process killed meanwhile.
    const Precedence precedence(courier_pid, Precedence::Heirs::kYes);
    // It has the process's descriptors until it closes them: a table of its own would keep pipes,
    // sockets and locks open that the program closes.
    absl::StatusOr<NewTask> task = NewTask::Make(courier.pid(), of_copies, CLONE_FILES | parent);
    if (task.ok()) {
      InjectCall(task->pid(), of_copies, SYS_close_range, {0, ~uint32_t{0}, kCloseRangeUnshare})
          .IgnoreError();
      // Freeing its memory has time.
      const sched_param ordinary = {};
      sched_setscheduler(task->pid(), SCHED_OTHER, &ordinary);
      copy = std::unique_ptr<ProcessCopy>(new ProcessCopy(task->Take(), site.instruction));
    } else {
      copy = task.status();
    }
  }
  // No other than the parent of the courier can free its entry in the process table.
  if (!ours) {
    InjectCall(thread, site, SYS_wait4, {static_cast<uint64_t>(courier_pid), 0, __WALL, 0})
        .IgnoreError();
  }
  ptrace(PTRACE_SETOPTIONS, thread, nullptr, stop.options());
  return copy;
}

void ProcessCopy::Forget(absl::Span<const AddressRange> ranges) {
  std::vector<CallToInject> calls;
  for (const AddressRange& range : ranges) {
    calls.push_back({SYS_madvise, {range.start, range.end - range.start, MADV_DONTNEED}});
  }
  InjectCalls(pid_, {instruction_, 0}, calls).IgnoreError();
}

ProcessCopy::~ProcessCopy() { KillAndReap(pid_); }

}  // namespace hindsight
