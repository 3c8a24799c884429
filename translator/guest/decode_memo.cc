#include "translator/guest/decode_memo.h"

#include <cstring>

namespace hindsight {

size_t DecodeMemo::IndexOf(absl::Span<const uint8_t> code) {
  uint32_t first = 0;
  static_assert(sizeof(first) == kIndexedBytes);
  std::memcpy(&first, code.data(), sizeof(first));
  constexpr uint32_t kGoldenRatio = 0x9e3779b9;  // Fibonacci hashing
  return first * kGoldenRatio >> (32 - kIndexBits);
}

const GuestInstruction* DecodeMemo::Find(absl::Span<const uint8_t> code) const {
  if (code.size() < kIndexedBytes) return nullptr;
  const size_t index = IndexOf(code);
  const size_t length = lengths_[index];
  if (length == 0 || length > code.size()) return nullptr;
  const GuestInstruction& found = entries_[index];
  return std::memcmp(found.bytes, code.data(), length) == 0 ? &found : nullptr;
}

void DecodeMemo::Add(absl::Span<const uint8_t> code, const GuestInstruction& instruction) {
  if (code.size() < kIndexedBytes) return;
  const size_t index = IndexOf(code);
  lengths_[index] = instruction.decoded.length;
  entries_[index] = instruction;
}

}  // namespace hindsight
