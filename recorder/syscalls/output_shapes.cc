#include "recorder/syscalls/output_shapes.h"

#include <algorithm>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kLargestAddress = 128;  // sockaddr_storage
constexpr uint64_t kUnlimited = ~uint64_t{0};

uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kUnlimited : product;
}

// The first `stored` bytes of a buffer that has room for `allowed`.
void AddFilled(const CallFrame& call, uint64_t address, uint64_t stored, uint64_t allowed,
               SyscallOutputs* out) {
  AddBuffer(call, address, call.failed() ? allowed : stored, out);
  if (call.failed() || stored >= allowed) return;
  out->unfilled.push_back({address + stored, allowed - stored});
}

// The first `total` bytes of the buffers that `count` iovecs at `address` name.
void AddVector(const CallFrame& call, uint64_t address, uint64_t count, uint64_t total,
               SyscallOutputs* out) {
  for (uint64_t i = 0; i < std::min(count, kMaxIovecs); ++i) {
    const uint64_t iovec = address + i * kIovecBytes;
    const uint64_t length = call.before.Word(iovec + 8, 8);
    const uint64_t part = std::min(length, total);
    AddFilled(call, call.before.Word(iovec, 8), part, length, out);
    total -= part;
  }
}

// What the struct msghdr at `address` names: name, its length (4 bytes), iovecs, their number,
// control, its length.
void AddMessage(const CallFrame& call, uint64_t address, uint64_t total, SyscallOutputs* out) {
  const auto word = [&](uint64_t offset, size_t size) {
    return call.before.Word(address + offset, size);
  };
  AddBuffer(call, word(0, 8), std::min(word(8, 4), kLargestAddress), out);
  AddVector(call, word(16, 8), word(24, 8), total, out);
  AddBuffer(call, word(32, 8), word(40, 8), out);
}

// Whether the pointers of the message at `address` still are what they were before the call. (The
// kernel reads those of a message when the ones before it have been stored.)
bool KeepsPointers(const CallFrame& call, uint64_t address) {
  constexpr uint64_t kName = 0, kVectors = 16, kVectorCount = 24, kControl = 32;
  const auto same = [&](uint64_t at) {
    return ReadWord(call.read, at, 8).value_or(0) == call.before.Word(at, 8);
  };
  for (const uint64_t offset : {kName, kVectors, kVectorCount, kControl}) {
    if (!same(address + offset)) return false;
  }
  const uint64_t vectors = call.before.Word(address + kVectors, 8);
  const uint64_t count = std::min(call.before.Word(address + kVectorCount, 8), kMaxIovecs);
  for (uint64_t i = 0; i < 2 * count; ++i) {
    if (!same(vectors + i * 8)) return false;
  }
  return true;
}

// One after the other, so what is stored for one may decide where the next ones go.
void AddMessages(const Output& output, const CallFrame& call, SyscallOutputs* out) {
  const uint64_t array = call.arguments[output.at];
  const uint64_t allowed = std::min(call.arguments[output.by], kMaxIovecs);
  const uint64_t received =
      call.failed() ? 0 : std::min(allowed, static_cast<uint64_t>(call.result));
  SyscallOutputs buffers;
  for (uint64_t i = 0; i < received; ++i) {
    const uint64_t at = array + i * kManyMessageBytes;
    AddMessage(call, at, ReadWord(call.read, at + kMessageBytes, 4).value_or(0), &buffers);
    out->known &= KeepsPointers(call, at);
  }
  if (received < allowed) {
    // The one that failed is not counted.
    SyscallOutputs next;
    AddMessage(call, array + received * kManyMessageBytes, kUnlimited, &next);
    if (call.failed()) {
      out->perhaps_written = next.perhaps_written;
    } else {
      buffers.unfilled.insert(buffers.unfilled.end(), next.written.begin(), next.written.end());
    }
  }
  for (const std::vector<MemoryRange>* ranges : {&buffers.written, &buffers.unfilled}) {
    for (const MemoryRange& range : *ranges) {
      out->known &= !call.before.Overlaps(range.address, range.size);
    }
  }
  out->written.push_back({array, std::min(allowed, received + 1) * kManyMessageBytes});
  out->written.insert(out->written.end(), buffers.written.begin(), buffers.written.end());
  out->unfilled.insert(out->unfilled.end(), buffers.unfilled.begin(), buffers.unfilled.end());
}

uint64_t ByResult(const Output& output, const CallFrame& call) {
  const uint64_t allowed = output.by == kNoArgument ? kUnlimited : call.arguments[output.by];
  if (call.failed()) return 0;
  return Product(std::min(allowed, static_cast<uint64_t>(call.result)), output.unit);
}

void AddByResult(const Output& output, const CallFrame& call, SyscallOutputs* out) {
  const uint64_t at = call.arguments[output.at];
  const uint64_t allowed = output.by == kNoArgument
                               ? ByResult(output, call)
                               : Product(call.arguments[output.by], output.unit);
  AddFilled(call, at, ByResult(output, call), allowed, out);
}

// The call stores the length, too; if something was stored over it, the size is not known.
uint64_t ByPointer(const Output& output, const CallFrame& call) {
  const uint64_t at = call.arguments[output.at], length_at = call.arguments[output.by];
  const uint64_t allowed = call.before.Word(length_at, 4);
  if (output.unit != 0) return std::min<uint64_t>(allowed, output.unit);
  if (length_at + 4 > at && length_at < at + allowed) return allowed;
  return std::min(allowed, ReadWord(call.read, length_at, 4).value_or(allowed));
}

}  // namespace

void AddBuffer(const CallFrame& call, uint64_t address, uint64_t bytes, SyscallOutputs* out) {
  (call.failed() ? out->perhaps_written : out->written).push_back({address, bytes});
}

void AddOutput(const Output& output, const CallFrame& call, SyscallOutputs* out) {
  const uint64_t at = call.arguments[output.at];
  if (at == 0) return;
  const uint64_t result = call.failed() ? 0 : static_cast<uint64_t>(call.result);
  switch (output.size) {
    case OutputSize::kNone:
      break;
    case OutputSize::kFixed:
      // Some store these and fail nevertheless: waitid, what is left of a sleep.
      out->written.push_back({at, output.unit});
      break;
    case OutputSize::kResult:
      AddByResult(output, call, out);
      break;
    case OutputSize::kArgument:
      AddBuffer(call, at, Product(call.arguments[output.by], output.unit), out);
      break;
    case OutputSize::kBits:
      AddBuffer(call, at, (call.arguments[output.by] / 64 + 1) * 8, out);
      break;
    case OutputSize::kPages:
      AddBuffer(call, at, call.arguments[output.by] / kPageBytes + 1, out);
      break;
    case OutputSize::kHeadAndResult:
      AddFilled(call, at, output.unit + ByResult({output.at, output.size, output.by, 1}, call),
                output.unit + call.arguments[output.by], out);
      break;
    case OutputSize::kPointed:
      AddBuffer(call, at, ByPointer(output, call), out);
      break;
    case OutputSize::kVector:
      AddVector(call, at, call.arguments[output.by], result, out);
      break;
    case OutputSize::kMessage:
      out->written.push_back({at, kMessageBytes});
      AddMessage(call, at, result, out);
      break;
    case OutputSize::kMessages:
      AddMessages(output, call, out);
      break;
  }
}

}  // namespace hindsight
