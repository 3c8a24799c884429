// What only ptrace reports of a stopped thread.

#ifndef HINDSIGHT_RECORDER_PTRACE_THREAD_FACTS_H_
#define HINDSIGHT_RECORDER_PTRACE_THREAD_FACTS_H_

#include <sys/types.h>

#include <cstdint>

namespace hindsight {

// Whether it executes 64-bit code: has the registers of x86-64, not of i386.
bool Is64Bit(pid_t thread);

// Whether it is stopped as it enters a system call. Requires: the option TRACESYSGOOD.
bool IsAtCallEntry(pid_t thread);

// What it has registered with rseq(2).
struct RseqRegistration {
  uint64_t address = 0;  // 0: nothing
  uint32_t bytes = 0, signature = 0, flags = 0;
};
RseqRegistration RseqRegistrationOf(pid_t thread);

// Where it has registered its struct rseq (recorder/process/rseq.h); 0: it has not.
uint64_t RseqOf(pid_t thread);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_THREAD_FACTS_H_
