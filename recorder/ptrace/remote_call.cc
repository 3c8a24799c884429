#include "recorder/ptrace/remote_call.h"

#include <fcntl.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/thread_facts.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

constexpr uint8_t kSyscallInstruction[] = {0x0f, 0x05};

absl::Status Gone(pid_t thread) {
  return absl::UnavailableError(absl::StrCat("thread ", thread, " is gone"));
}

// The vdso makes system calls where it cannot answer itself.
absl::StatusOr<uint64_t> FindInstruction(pid_t thread) {
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", thread, "/maps"));
  const MapRegion* vdso = map.FindNamed("[vdso]");
  if (vdso == nullptr) return absl::UnavailableError("the program has no vdso");
  std::vector<uint8_t> image(vdso->end - vdso->start);
  if (!ProcMemFile(thread).Read(vdso->start, absl::MakeSpan(image))) {
    return Gone(thread);
  }
  const auto found = std::search(image.begin(), image.end(), std::begin(kSyscallInstruction),
                                 std::end(kSyscallInstruction));
  if (found == image.end()) return absl::UnavailableError("the vdso makes no system calls");
  return vdso->start + static_cast<uint64_t>(found - image.begin());
}

}  // namespace

absl::StatusOr<int64_t> CallInThread(pid_t thread, int64_t number,
                                     const std::array<uint64_t, 6>& arguments) {
  if (IsAtCallEntry(thread)) {
    // Ours would take the place of its own, which would never be made.
    return absl::FailedPreconditionError(
        absl::StrCat("thread ", thread, " is entering a system call"));
  }
  ASSIGN_OR_RETURN(const uint64_t instruction, FindInstruction(thread));
  user_regs_struct saved;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &saved) != 0) return Gone(thread);
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
  user_regs_struct after;
  const bool made = ptrace(PTRACE_SETREGS, thread, nullptr, &call) == 0 &&
                    StepWhile(thread, 1, [&](uint64_t pc) { return pc == instruction; }) &&
                    ptrace(PTRACE_GETREGS, thread, nullptr, &after) == 0;
  if (ptrace(PTRACE_SETREGS, thread, nullptr, &saved) != 0 || !made) return Gone(thread);
  return static_cast<int64_t>(after.rax);
}

absl::Status RandomizeAddressesAgain(pid_t thread) {
  // Programs that we start without LaunchTraced have none either.
  const int own = personality(0xffffffff);
  if (own != -1 && (own & ADDR_NO_RANDOMIZE) != 0) return absl::OkStatus();
  UniqueFd fd(open(absl::StrCat("/proc/", thread, "/personality").c_str(), O_RDONLY | O_CLOEXEC));
  char text[32] = {};
  if (!fd.valid() || read(fd.get(), text, sizeof(text) - 1) <= 0) return Gone(thread);
  const uint64_t now = std::strtoull(text, nullptr, 16);
  if ((now & ADDR_NO_RANDOMIZE) == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t before,
                   CallInThread(thread, SYS_personality, {now & ~uint64_t{ADDR_NO_RANDOMIZE}}));
  if (before < 0) return absl::UnavailableError("personality failed");
  return absl::OkStatus();
}

}  // namespace hindsight
