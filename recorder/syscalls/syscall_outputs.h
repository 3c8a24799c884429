// What a system call may have done to the memory of the process that made it.
//
// It says which pages that are *not* in use may have changed: their contents are imported when the
// call returns, and all others have not changed. A call that is not in the table may have written
// anywhere. Pages in use are compared in any case, except after common calls whose outputs are
// trusted (trusted_calls.h): the table must be right to the byte for these, or the program goes on
// with old memory.
//
// A range may be larger than what was written, never smaller. What the caller's memory says about
// places and lengths (vectors, message headers, lengths in and out) is taken before the call
// (ArgumentMemory).
//
// Stateless; any thread.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUTS_H_
#define HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "recorder/syscalls/argument_memory.h"

namespace hindsight {

// Bytes [address, address + size) of the process.
struct MemoryRange {
  uint64_t address = 0;
  uint64_t size = 0;

  bool operator==(const MemoryRange&) const = default;
};

struct SyscallOutputs {
  // False: anything may have been written.
  bool known = true;
  // Bytes of files may have changed, and with them what mappings show of files.
  bool writes_files = false;
  // From now on another process (not a thread of this one) shares its memory.
  bool shares_memory = false;
  std::vector<MemoryRange> written;
  // Buffers of a call that failed: it may have stored there before, which is unlikely.
  std::vector<MemoryRange> perhaps_written;
  // What follows in buffers that were not filled, in the order in which they are. The kernel counts
  // whole pieces: of the piece that ends in memory that cannot be written the rest was stored.
  std::vector<MemoryRange> unfilled;
  // Mapped anew, or unmapped.
  std::vector<MemoryRange> remapped;
  // The kernel may replace it by zeros at any time from now on.
  std::vector<MemoryRange> discarded;

  // Adds what `other` has done besides writing.
  void Add(const SyscallOutputs& other);
};

// Of call `number` with its six `arguments`, which returned `result` (-errno: it failed). `before`
// was taken at the call, `read` reads the caller's memory as it is after it.
SyscallOutputs OutputsOf(int64_t number, const uint64_t* arguments, int64_t result,
                         const ArgumentMemory& before, const ReadMemory& read);

// What the kernel stored on the stack for a signal whose handler it has just entered: from `stack`,
// the handler's stack pointer, up to the end of the saved registers. `context` is the address of
// the ucontext.
MemoryRange SignalFrame(uint64_t stack, uint64_t context, const ReadMemory& read);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUTS_H_
