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
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

constexpr uint8_t kCall[] = {0x0f, 0x05};
// Of every kernel so far, and of the instruction in each of them.
constexpr size_t kVdsoBytes = 4096;

constexpr std::chrono::milliseconds kStopTimeout(5000);

absl::Status Gone(pid_t thread) {
  return absl::UnavailableError(absl::StrCat("thread ", thread, " is gone"));
}

// Runs the thread from before the call to its end. False: it is gone.
bool RunThroughCall(pid_t thread, InjectedResult* result, bool* sigstop) {
  for (int calls = 0; calls < 2;) {
    if (ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr) != 0) return false;
    const std::optional<WaitStatus> status = WaitForAnyStop(thread);
    if (!status.has_value()) return false;
    if (status->kind == WaitStatus::Kind::kSyscall) ++calls;
    if (status->kind == WaitStatus::Kind::kEvent && status->event == PTRACE_EVENT_CLONE) {
      result->task = TaskOfEvent(thread);
    }
    // No mask keeps this one out.
    if (status->signal_to_deliver() == SIGSTOP) *sigstop = true;
  }
  user_regs_struct after;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &after) != 0) return false;
  result->value = static_cast<int64_t>(after.rax);
  return ContinueToStop(thread, 0) &&
         WaitForSeizedStop(thread, kStopTimeout).kind == SeizedStop::Kind::kStopped;
}

}  // namespace

absl::StatusOr<uint64_t> FindCallInstruction(pid_t thread) {
  const std::vector<uint64_t> auxv = AuxiliaryVector(thread);
  uint64_t vdso = 0;
  for (size_t i = 0; i + 1 < auxv.size(); i += 2) {
    if (auxv[i] == AT_SYSINFO_EHDR) vdso = auxv[i + 1];
  }
  if (vdso == 0) return absl::UnavailableError("the program has no vdso");
  std::vector<uint8_t> image(kVdsoBytes);
  if (!ProcessVmMemory(thread).Read(vdso, absl::MakeSpan(image))) return Gone(thread);
  const auto found = std::search(image.begin(), image.end(), std::begin(kCall), std::end(kCall));
  if (found == image.end()) return absl::UnavailableError("the vdso makes no system calls");
  return vdso + static_cast<uint64_t>(found - image.begin());
}

absl::StatusOr<InjectedResult> InjectCall(pid_t thread, uint64_t instruction, int64_t number,
                                          const std::array<uint64_t, 6>& arguments) {
  user_regs_struct saved;
  uint64_t mask = 0;
  const uint64_t all = ~uint64_t{0};
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &saved) != 0 ||
      ptrace(PTRACE_GETSIGMASK, thread, sizeof(mask), &mask) != 0 ||
      ptrace(PTRACE_SETSIGMASK, thread, sizeof(all), &all) != 0) {
    return Gone(thread);
  }
  user_regs_struct call = saved;
  call.rip = instruction;
  call.orig_rax = ~uint64_t{0};
  call.rax = static_cast<uint64_t>(number);
  call.rdi = arguments[0];
  call.rsi = arguments[1];
  call.rdx = arguments[2];
  call.r10 = arguments[3];
  call.r8 = arguments[4];
  call.r9 = arguments[5];
  InjectedResult result;
  bool sigstop = false;
  const bool made = ptrace(PTRACE_SETREGS, thread, nullptr, &call) == 0 &&
                    RunThroughCall(thread, &result, &sigstop);
  const bool restored = ptrace(PTRACE_SETREGS, thread, nullptr, &saved) == 0 &&
                        ptrace(PTRACE_SETSIGMASK, thread, sizeof(mask), &mask) == 0;
  if (sigstop) syscall(SYS_tkill, thread, SIGSTOP);
  if (!made || !restored) return Gone(thread);
  return result;
}

}  // namespace hindsight
