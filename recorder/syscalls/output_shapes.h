// The ways in which a system call's arguments determine where it stores, and how much.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_SHAPES_H_
#define HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_SHAPES_H_

#include <cstdint>

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

enum class OutputSize : uint8_t {
  kNone,
  kFixed,          // `unit` bytes
  kResult,         // as many units as the call returned, at most argument `by` (if that is one)
  kArgument,       // as many units as argument `by` says
  kBits,           // a bit set, in words of 64: argument `by` says how many bits
  kPages,          // a byte for each page of the bytes that argument `by` says
  kPointed,        // argument `by` points to the number of bytes, 32 bits; at most `unit` (0: any)
  kHeadAndResult,  // `unit` bytes, and as many as kResult says
  kVector,         // the argument points to iovecs, argument `by` many, filled by the result
  kMessage,        // the argument points to a msghdr, filled by the result
  kMessages,       // ... to mmsghdrs, as many as the result says
};

inline constexpr uint8_t kNoArgument = 0xff;

// The bytes that argument `at` points to, if it is not 0.
struct Output {
  uint8_t at = 0;
  OutputSize size = OutputSize::kNone;
  uint8_t by = kNoArgument;
  uint32_t unit = 1;
};

// Adds the range of `output` of `call`.
void AddOutput(const Output& output, const CallFrame& call, SyscallOutputs* out);

// Adds the `bytes` at `address` that the call may store at most: as written, or perhaps so if it
// failed.
void AddBuffer(const CallFrame& call, uint64_t address, uint64_t bytes, SyscallOutputs* out);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_SHAPES_H_
