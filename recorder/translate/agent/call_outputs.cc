// What system calls have stored, by the table of their outputs, and what they send.

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "recorder/syscalls/call_shapes.h"
#include "recorder/syscalls/sending_calls.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kMaxVectors = 1024;  // UIO_MAXIOV
constexpr uint64_t kNoLimit = ~uint64_t{0};

uint64_t Smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

template <typename T>
T FromGuest(uint64_t address) {
  T value = {};
  CopyGuest(&value, PointerTo<const void>(address), sizeof(value));
  return value;
}

void Take(Thread* thread, uint64_t address, uint64_t bytes) {
  if (bytes != 0 && InWindows(address, address + bytes)) TakeRead(thread, address, bytes);
}

// The first `total` bytes of `count` buffers.
void TakeVector(Thread* thread, uint64_t address, uint64_t count, uint64_t total) {
  for (uint64_t i = 0; i < Smaller(count, kMaxVectors) && total != 0; ++i) {
    const auto part = FromGuest<iovec>(address + i * sizeof(iovec));
    const uint64_t bytes = Smaller(part.iov_len, total);
    Take(thread, AddressOf(part.iov_base), bytes);
    total -= bytes;
  }
}

void TakeMessage(Thread* thread, uint64_t address, uint64_t total) {
  Take(thread, address, sizeof(msghdr));
  const auto message = FromGuest<msghdr>(address);
  Take(thread, AddressOf(message.msg_name), message.msg_namelen);
  TakeVector(thread, AddressOf(message.msg_iov), message.msg_iovlen, total);
  Take(thread, AddressOf(message.msg_control), message.msg_controllen);
}

void TakeMessages(Thread* thread, uint64_t address, uint64_t count) {
  for (uint64_t i = 0; i < Smaller(count, kMaxVectors); ++i) {
    const uint64_t at = address + i * sizeof(mmsghdr);
    Take(thread, at, sizeof(mmsghdr));
    TakeMessage(thread, at, FromGuest<mmsghdr>(at).msg_len);
  }
}

// What a call that has succeeded has stored at the argument.
void TakeOutput(Thread* thread, const Output& output, const GuestCall& made, uint64_t result) {
  const uint64_t at = made.argument(output.at);
  const uint64_t by = output.by == kNoArgument ? kNoLimit : made.argument(output.by);
  if (at == 0) return;
  switch (output.size) {
    case OutputSize::kNone:
      return;
    case OutputSize::kFixed:
      return Take(thread, at, output.unit);
    case OutputSize::kResult:
      return Take(thread, at, Smaller(by, result) * output.unit);
    case OutputSize::kArgument:
      return Take(thread, at, by * output.unit);
    case OutputSize::kBits:
      return Take(thread, at, (by / 64 + 1) * 8);
    case OutputSize::kPages:
      return Take(thread, at, by / kPageBytes + 1);
    case OutputSize::kHeadAndResult:
      return Take(thread, at, output.unit + Smaller(by, result));
    case OutputSize::kPointed: {
      const uint64_t most = output.unit == 0 ? kNoLimit : output.unit;
      return Take(thread, at, Smaller(FromGuest<uint32_t>(by), most));
    }
    case OutputSize::kVector:
      return TakeVector(thread, at, by, result);
    case OutputSize::kMessage:
      return TakeMessage(thread, at, result);
    case OutputSize::kMessages:
      return TakeMessages(thread, at, Smaller(by, result));
  }
}

// True if it is a call that puts other memory in a place: nothing else is stored.
bool TakeNewMemory(Thread* thread, const GuestCall& made, uint64_t result) {
  const uint64_t start = made.argument(0), bytes = made.argument(1);
  switch (made.number()) {
    case SYS_mmap:
      TakeReplaced(thread, result, result + bytes, 0);
      return true;
    case SYS_madvise:
      TakeReplaced(thread, start, start + bytes, 0);
      return true;
    case SYS_mremap:
      TakeReplaced(thread, result, result + made.argument(2), 0);
      TakeReplaced(thread, start, start + Smaller(bytes, made.argument(2)), result - start);
      return true;
    default:
      return false;
  }
}

// What the arguments of a call may point to.
void TakeArguments(Thread* thread, const GuestCall& made) {
  constexpr uint64_t kLargestStruct = 512;
  for (int i = 0; i < 6; ++i) {
    const uint64_t address = made.argument(i);
    if (InWindows(address, address + kLargestStruct)) Take(thread, address, kLargestStruct);
  }
}

// What they store is not in the table: one struct, or a word.
bool StoresAtArgument(uint32_t number) {
  return number == SYS_ioctl || number == SYS_fcntl || number == SYS_futex;
}

void TakeListedOutputs(Thread* thread, const SyscallShape& shape, const GuestCall& made,
                       uint64_t result) {
  for (const Output& output : shape.outputs) TakeOutput(thread, output, made, result);
}

// Of a thread that uses memory directly, after a call that is trusted: nothing tells later what
// this leaves out.
void TellOutputs(Thread* thread, const GuestCall& made, int64_t result) {
  const SyscallShape* const shape = FindStoringShape(made.number());
  if (IsError(result)) {
    // What is left of a time, what is ready: the only errors that come with something.
    if (TellFailedMemoryCall(thread, made) || result != -EINTR) return;
    if (shape != nullptr) TakeListedOutputs(thread, *shape, made, 0);
    return TakeArguments(thread, made);
  }
  if (TellMemoryCall(thread, made, static_cast<uint64_t>(result))) return;
  if (shape != nullptr) {
    TakeListedOutputs(thread, *shape, made, static_cast<uint64_t>(result));
  } else if (StoresAtArgument(made.number())) {
    TakeArguments(thread, made);
  }
}

// At most *left bytes, page by page.
void RecordBytes(Thread* thread, uint64_t address, uint64_t bytes, uint64_t* left) {
  bytes = Smaller(bytes, *left);
  if (!InWindows(address, address + bytes)) return;
  *left -= bytes;
  while (bytes != 0) {
    const uint64_t part = Smaller(bytes, kPageBytes - address % kPageBytes);
    RecordSeen(thread, address, part);
    address += part;
    bytes -= part;
  }
}

void RecordVectors(Thread* thread, uint64_t address, uint64_t count, uint64_t* left) {
  for (uint64_t i = 0; i < Smaller(count, kMaxVectors) && *left != 0; ++i) {
    const auto part = FromGuest<iovec>(address + i * sizeof(iovec));
    RecordBytes(thread, AddressOf(part.iov_base), part.iov_len, left);
  }
}

void RecordMessage(Thread* thread, uint64_t address, uint64_t* left) {
  const auto message = FromGuest<msghdr>(address);
  RecordVectors(thread, AddressOf(message.msg_iov), message.msg_iovlen, left);
  RecordBytes(thread, AddressOf(message.msg_control), message.msg_controllen, left);
}

}  // namespace

void RecordSent(Thread* thread, const GuestCall& made) {
  const SendingCall* const call = FindSendingCall(made.number());
  if (call == nullptr || !IsRecorded(*thread)) return;
  uint64_t left = 16 * kKiB;  // that takes some 2 us
  const uint64_t at = made.argument(call->argument), size = made.argument(call->argument + 1);
  switch (call->as) {
    case SentAs::kBytes:
      return RecordBytes(thread, at, size, &left);
    case SentAs::kVectors:
      return RecordVectors(thread, at, size, &left);
    case SentAs::kMessage:
      return RecordMessage(thread, at, &left);
    case SentAs::kMessages:
      for (uint64_t i = 0; i < Smaller(static_cast<uint32_t>(size), kMaxVectors); ++i) {
        if (left != 0) RecordMessage(thread, at + i * sizeof(mmsghdr), &left);
      }
      return;
    case SentAs::kQueued:
      RecordBytes(thread, at, sizeof(long), &left);
      return RecordBytes(thread, at + sizeof(long), size, &left);
  }
}

void TakeOutputs(Thread* thread, const GuestCall& made, int64_t result) {
  if (!IsRecorded(*thread)) return;
  if (IsDirect(*thread)) return TellOutputs(thread, made, result);
  if (!IsError(result) && TakeNewMemory(thread, made, static_cast<uint64_t>(result))) return;
  const SyscallShape* const shape = FindStoringShape(made.number());
  if (shape == nullptr || IsError(result)) {
    // Of memory that the thread knows, what the arguments may point to.
    constexpr uint64_t kLargestStruct = 512;
    for (int i = 0; i < 6; ++i) {
      const uint64_t address = made.argument(i);
      if (InWindows(address, address + kLargestStruct)) TakeMiss(thread, address, kLargestStruct);
    }
    return;
  }
  TakeListedOutputs(thread, *shape, made, static_cast<uint64_t>(result));
}

}  // namespace hindsight::agent
