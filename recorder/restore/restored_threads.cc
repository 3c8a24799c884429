#include "recorder/restore/restored_threads.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/ptrace/whole/stub_process.h"

namespace hindsight {
namespace {

constexpr uint64_t kThreadFlags =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
constexpr uint64_t kRseqCs = 8;  // offsetof(struct rseq, rseq_cs)

class ThreadStateRestorer {
 public:
  ThreadStateRestorer(Remote* remote, RestoreNotes* notes) : remote_(*remote), notes_(*notes) {}

  absl::Status Restore(const RestoredThread& thread) {
    thread_ = &thread;
    const ThreadKernelState& kernel = thread.kernel;
    if (kernel.clear_tid.has_value()) {
      RETURN_IF_ERROR(Try("set_tid_address", SYS_set_tid_address, {*kernel.clear_tid}));
      RETURN_IF_ERROR(CorrectTid(*kernel.clear_tid));
    }
    if (kernel.robust_list != 0) {
      RETURN_IF_ERROR(Try("robust futexes", SYS_set_robust_list,
                          {kernel.robust_list, kernel.robust_list_bytes}));
    }
    if (kernel.has_signal_stack) RETURN_IF_ERROR(RestoreSignalStack());
    if (kernel.rseq != 0) RETURN_IF_ERROR(RestoreRseq());
    if (!kernel.name.empty()) {
      ASSIGN_OR_RETURN(const uint64_t name, remote_.PutText(0, kernel.name));
      RETURN_IF_ERROR(Try("name", SYS_prctl, {PR_SET_NAME, name}));
    }
    return RestoreScheduling();
  }

 private:
  // A failure is for the user to know, not the end.
  absl::Status Try(const char* what, int64_t number, const Remote::CallArguments& arguments) {
    ASSIGN_OR_RETURN(const int64_t value, remote_.TryCall(thread_->thread, number, arguments));
    if (value < 0 && value >= -4095) {
      notes_.lost.push_back(absl::StrCat("thread ", thread_->state.thread, ": ", what, ": ",
                                         strerror(static_cast<int>(-value))));
    }
    return absl::OkStatus();
  }

  // glibc has the kernel clear the very word in which it keeps the thread's id.
  absl::Status CorrectTid(uint64_t address) {
    if (thread_->thread == thread_->state.thread) return absl::OkStatus();
    int32_t word = 0;
    if (remote_.memory().Read(address, {reinterpret_cast<uint8_t*>(&word), sizeof(word)}) &&
        word == thread_->state.thread) {
      word = thread_->thread;
      remote_.memory().Write(address, {reinterpret_cast<const uint8_t*>(&word), sizeof(word)});
    }
    return absl::OkStatus();
  }

  absl::Status RestoreSignalStack() {
    const ThreadKernelState& kernel = thread_->kernel;
    stack_t stack = {};
    stack.ss_sp = reinterpret_cast<void*>(kernel.signal_stack_base);
    stack.ss_size = kernel.signal_stack_bytes;
    stack.ss_flags = kernel.signal_stack_flags & ~SS_ONSTACK;
    ASSIGN_OR_RETURN(const uint64_t address, remote_.PutValue(0, stack));
    return Try("signal stack", SYS_sigaltstack, {address, 0});
  }

  // Registering forgets in which sequence the thread was.
  absl::Status RestoreRseq() {
    const ThreadKernelState& kernel = thread_->kernel;
    uint8_t sequence[8] = {};
    const bool known = remote_.memory().Read(kernel.rseq + kRseqCs, absl::MakeSpan(sequence));
    RETURN_IF_ERROR(Try("restartable sequences", SYS_rseq,
                        {kernel.rseq, kernel.rseq_bytes, 0, kernel.rseq_signature}));
    if (known) remote_.memory().Write(kernel.rseq + kRseqCs, sequence);
    return absl::OkStatus();
  }

  absl::Status RestoreScheduling() {
    const ThreadKernelState& kernel = thread_->kernel;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (size_t i = 0; i < kernel.processors.size() * 64 && i < CPU_SETSIZE; ++i) {
      if ((kernel.processors[i / 64] >> (i % 64) & 1) != 0) CPU_SET(i, &wanted);
    }
    const sched_param parameters = {.sched_priority = kernel.priority};
    const bool failed = (CPU_COUNT(&wanted) != 0 &&
                         sched_setaffinity(thread_->thread, sizeof(wanted), &wanted) != 0) ||
                        (kernel.policy != SCHED_OTHER &&
                         sched_setscheduler(thread_->thread, kernel.policy, &parameters) != 0);
    if (failed) {
      notes_.different.push_back(
          absl::StrCat("thread ", thread_->state.thread, ": its processors or its priority"));
    }
    return absl::OkStatus();
  }

  Remote& remote_;
  RestoreNotes& notes_;
  const RestoredThread* thread_ = nullptr;
};

absl::StatusOr<pid_t> MakeThread(pid_t wanted, Remote* remote) {
  constexpr uint64_t kIdOffset = 256;
  for (const bool choose : {true, false}) {
    clone_args arguments = {};
    arguments.flags = kThreadFlags;
    ASSIGN_OR_RETURN(const uint64_t id, remote->PutValue(kIdOffset, wanted));
    if (choose) {
      arguments.set_tid = id;
      arguments.set_tid_size = 1;
    }
    ASSIGN_OR_RETURN(const uint64_t at, remote->PutValue(0, arguments));
    int64_t result = 0;
    auto task = remote->MakeTask(SYS_clone3, {at, sizeof(arguments)}, &result);
    if (task.ok() || !choose || (result != -EPERM && result != -EEXIST)) return task;
  }
  return absl::InternalError("no thread");  // not reached
}

RestoredThread Describe(const FullKeyframe::ThreadState& state, const KernelState* kernel) {
  RestoredThread thread = {.thread = 0, .state = state, .kernel = {}};
  const ThreadKernelState* const known = kernel == nullptr ? nullptr : kernel->Thread(state.thread);
  if (known != nullptr) thread.kernel = *known;
  thread.kernel.thread = state.thread;
  return thread;
}

}  // namespace

absl::Status MakeThreads(const FullKeyframe& keyframe, int32_t process, Remote* remote,
                         std::vector<RestoredThread>* threads, RestoreNotes* notes) {
  std::vector<FullKeyframe::ThreadState> states = keyframe.threads();
  if (states.empty()) return absl::DataLossError("the snapshot has no thread");
  std::stable_sort(states.begin(), states.end(), [&](const auto& a, const auto& b) {
    return (a.thread == process) > (b.thread == process);
  });
  for (const FullKeyframe::ThreadState& state : states) {
    RestoredThread thread = Describe(state, keyframe.kernel_state());
    if (threads->empty()) {
      thread.thread = remote->process();
    } else {
      ASSIGN_OR_RETURN(thread.thread, MakeThread(thread.state.thread, remote));
    }
    if (thread.thread != state.thread) {
      notes->different.push_back(absl::StrCat("thread ", state.thread, " is ", thread.thread));
    }
    threads->push_back(std::move(thread));
  }
  return absl::OkStatus();
}

absl::Status RestoreThreadStates(const std::vector<RestoredThread>& threads, Remote* remote,
                                 RestoreNotes* notes) {
  ThreadStateRestorer restorer(remote, notes);
  for (const RestoredThread& thread : threads) RETURN_IF_ERROR(restorer.Restore(thread));
  return absl::OkStatus();
}

bool SetRegisters(const RestoredThread& thread, const RegisterFile& registers) {
  // A thread that is sent elsewhere is not in its system call any more.
  RegisterFile before;
  const bool stays = FromWords(thread.state.registers, &before) && before.rip == registers.rip &&
                     before.gpr[kRax] == registers.gpr[kRax];
  return SetThreadRegisters(
      thread.thread, registers, stays ? thread.kernel.system_call : -1,
      thread.signal_is_handled ? CallUnderWay::kIsEnded : CallUnderWay::kIsMadeAgain);
}

absl::Status RestoreRegisters(const std::vector<RestoredThread>& threads) {
  for (const RestoredThread& thread : threads) {
    RegisterFile registers;
    if (!FromWords(thread.state.registers, &registers)) {
      return absl::DataLossError("the snapshot's registers have an unknown layout");
    }
    if (!SetRegisters(thread, registers) || !SetThreadMask(thread.thread, thread.kernel.blocked)) {
      return absl::UnavailableError("the new process is gone");
    }
  }
  return absl::OkStatus();
}

}  // namespace hindsight
