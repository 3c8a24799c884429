#include "recorder/output_shapes.h"

#include <algorithm>
#include <array>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kIovecBytes = 16;
constexpr uint64_t kMaxIovecs = 1024;  // UIO_MAXIOV: the kernel refuses more
constexpr uint64_t kMessageBytes = 56;
constexpr uint64_t kManyMessageBytes = 64;
constexpr uint64_t kLargestAddress = 128;  // sockaddr_storage
constexpr uint64_t kUnlimited = ~uint64_t{0};

uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kUnlimited : product;
}

// The first `total` bytes of the buffers that `count` iovecs at `address` name.
void AddVector(uint64_t address, uint64_t count, uint64_t total, const ReadMemory& read,
               std::vector<MemoryRange>* ranges) {
  for (uint64_t i = 0; i < std::min(count, kMaxIovecs) && total > 0; ++i) {
    const std::optional<uint64_t> base = ReadWord(read, address + i * kIovecBytes, 8);
    const std::optional<uint64_t> length = ReadWord(read, address + i * kIovecBytes + 8, 8);
    if (!base.has_value() || !length.has_value()) return;
    const uint64_t part = std::min(*length, total);
    ranges->push_back({*base, part});
    total -= part;
  }
}

// struct msghdr: name, its length (4 bytes), iovecs, their number, control, its length, flags.
void AddMessage(uint64_t address, uint64_t total, const ReadMemory& read,
                std::vector<MemoryRange>* ranges) {
  const auto word = [&](uint64_t offset, size_t size) {
    return ReadWord(read, address + offset, size).value_or(0);
  };
  ranges->push_back({address, kMessageBytes});
  ranges->push_back({word(0, 8), std::min(word(8, 4), kLargestAddress)});
  AddVector(word(16, 8), word(24, 8), total, read, ranges);
  ranges->push_back({word(32, 8), word(40, 8)});
}

void AddMessages(const Output& output, const CallFrame& call, std::vector<MemoryRange>* ranges) {
  const uint64_t allowed = std::min(call.arguments[output.by], kMaxIovecs);
  const uint64_t count =
      call.failed() ? allowed : std::min(allowed, static_cast<uint64_t>(call.result));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = call.arguments[output.at] + i * kManyMessageBytes;
    const uint64_t received = ReadWord(call.read, at + kMessageBytes, 4).value_or(0);
    ranges->push_back({at, kManyMessageBytes});
    AddMessage(at, call.failed() ? kUnlimited : received, call.read, ranges);
  }
}

uint64_t ByResult(const Output& output, const CallFrame& call) {
  const uint64_t allowed = output.by == kNoArgument ? kUnlimited : call.arguments[output.by];
  if (call.failed()) return output.by == kNoArgument ? 0 : Product(allowed, output.unit);
  return Product(std::min(allowed, static_cast<uint64_t>(call.result)), output.unit);
}

uint64_t ByPointer(const Output& output, const CallFrame& call) {
  const uint64_t told = ReadWord(call.read, call.arguments[output.by], 4).value_or(0);
  return output.unit == 0 ? told : std::min<uint64_t>(told, output.unit);
}

}  // namespace

std::optional<uint64_t> ReadWord(const ReadMemory& read, uint64_t address, size_t size) {
  std::array<uint8_t, 8> bytes = {};
  if (address == 0 || !read(address, absl::MakeSpan(bytes.data(), size))) return std::nullopt;
  uint64_t word = 0;
  for (size_t i = size; i-- > 0;) word = word << 8 | bytes[i];
  return word;
}

void AddOutput(const Output& output, const CallFrame& call, std::vector<MemoryRange>* ranges) {
  const uint64_t at = call.arguments[output.at];
  if (at == 0) return;
  const uint64_t result = call.failed() ? kUnlimited : static_cast<uint64_t>(call.result);
  switch (output.size) {
    case OutputSize::kNone:
      break;
    case OutputSize::kFixed:
      ranges->push_back({at, output.unit});
      break;
    case OutputSize::kResult:
      ranges->push_back({at, ByResult(output, call)});
      break;
    case OutputSize::kArgument:
      ranges->push_back({at, Product(call.arguments[output.by], output.unit)});
      break;
    case OutputSize::kBits:
      ranges->push_back({at, (call.arguments[output.by] / 64 + 1) * 8});
      break;
    case OutputSize::kPages:
      ranges->push_back({at, call.arguments[output.by] / kPageBytes + 1});
      break;
    case OutputSize::kHeadAndResult:
      ranges->push_back({at, output.unit + ByResult({output.at, output.size, output.by, 1}, call)});
      break;
    case OutputSize::kPointed:
      ranges->push_back({at, ByPointer(output, call)});
      break;
    case OutputSize::kVector:
      AddVector(at, call.arguments[output.by], result, call.read, ranges);
      break;
    case OutputSize::kMessage:
      AddMessage(at, result, call.read, ranges);
      break;
    case OutputSize::kMessages:
      AddMessages(output, call, ranges);
      break;
  }
}

}  // namespace hindsight
