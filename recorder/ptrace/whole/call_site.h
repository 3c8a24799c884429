// Where in a process a stopped thread can be made to make system calls, and to find its way back by
// itself should nobody be there any more to give it back its registers.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_CALL_SITE_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_CALL_SITE_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace hindsight {

struct CallSite {
  uint64_t instruction = 0;  // syscall; if there is a `restorer`, followed by ret
  uint64_t restorer = 0;     // calls rt_sigreturn, as every C library has it; 0: there is none
};

// Looks through the code of the process, which need not stand still: some 0.1 ms. Without a C
// library the instruction is one of the vdso. kUnavailable: there is none at all.
absl::StatusOr<CallSite> FindCallSite(pid_t process);

// A system call instruction in the vdso of the thread's process. kUnavailable: it has none.
absl::StatusOr<uint64_t> FindCallInstruction(pid_t thread);

// Whether both are still there.
bool IsStillThere(pid_t thread, const CallSite& site);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_CALL_SITE_H_
