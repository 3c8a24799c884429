// The ways in which a system call's arguments determine where it stores, and how much.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_SHAPES_H_
#define HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_SHAPES_H_

#include <cstdint>

#include "recorder/syscalls/call_shapes.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// A call that has returned.
struct CallFrame {
  int64_t number = 0;
  const uint64_t* arguments = nullptr;  // six
  int64_t result = 0;
  const ArgumentMemory& before;  // what was taken at the call
  const ReadMemory& read;        // as memory is after it

  bool failed() const { return result < 0 && result > -4096; }
};

// Adds the range of `output` of `call`.
void AddOutput(const Output& output, const CallFrame& call, SyscallOutputs* out);

// Adds the `bytes` at `address` that the call may store at most: as written, or perhaps so if it
// failed.
void AddBuffer(const CallFrame& call, uint64_t address, uint64_t bytes, SyscallOutputs* out);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_SHAPES_H_
