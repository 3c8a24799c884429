#include "emulator/checks/odd_encodings.h"

#include <algorithm>
#include <iterator>

namespace hindsight {
namespace {

constexpr uint8_t kPrefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36,
                                 0x64, 0x65, 0x40, 0x41, 0x44, 0x48, 0x4f};
constexpr size_t kLongest = 15;

class Bytes {
 public:
  explicit Bytes(std::mt19937_64* random) : random_(random) {}

  uint64_t Below(uint64_t limit) { return (*random_)() % limit; }
  void Add(uint64_t byte) { bytes_.push_back(static_cast<uint8_t>(byte)); }

  // Memory that exists, or a register.
  void ModRm() {
    const uint64_t reg = Below(8) << 3;
    switch (Below(4)) {
      case 0:
        Add(reg | 7);  // [rdi]
        break;
      case 1:
        Add(0x40 | reg | (Below(2) != 0 ? 7 : 6));  // [rdi or rsi + small]
        Add(Below(128));
        break;
      case 2:
        Add(reg | 4);  // [rbx or rsp]
        Add(0x20 | (Below(2) != 0 ? 3 : 4));
        break;
      default:
        Add(0xc0 | reg | Below(8));
        break;
    }
  }

  void Opcode() {
    switch (Below(8)) {
      case 0:
      case 1:
        Add(0x0f);
        break;
      case 2:
        Add(0x0f);
        Add(Below(2) != 0 ? 0x38 : 0x3a);
        break;
      case 3:
        Vex();
        break;
      default:
        break;
    }
    Add(Below(256));
    ModRm();
  }

  std::vector<uint8_t> Take() {
    while (bytes_.size() < kOddBytes) Add(Below(256));
    bytes_.resize(kOddBytes);
    return std::move(bytes_);
  }

 private:
  // The third register is mostly the one that means none.
  void Vex() {
    const uint64_t third = Below(2) != 0 ? 0x78 : Below(16) << 3;
    if (Below(3) != 0) {
      Add(0xc4);
      Add(Below(8) << 5 | (1 + Below(3)));
      Add(Below(2) << 7 | third | Below(8));
    } else {
      Add(0x62);
      Add(Below(16) << 4 | (1 + Below(3)));
      Add(Below(2) << 7 | third | 4 | Below(4));
      Add(Below(256));
    }
  }

  std::mt19937_64* random_;
  std::vector<uint8_t> bytes_;
};

}  // namespace

std::vector<std::vector<uint8_t>> PrefixSequences(int prefixes) {
  std::vector<std::vector<uint8_t>> sequences = {{}};
  size_t begin = 0;
  for (int i = 0; i < prefixes; ++i) {
    const size_t end = sequences.size();
    for (; begin < end; ++begin) {
      for (uint8_t prefix : kPrefixes) {
        std::vector<uint8_t> longer = sequences[begin];
        longer.push_back(prefix);
        sequences.push_back(std::move(longer));
      }
    }
  }
  return sequences;
}

std::vector<uint8_t> WithPrefixes(const std::vector<uint8_t>& prefixes, std::mt19937_64* random) {
  Bytes bytes(random);
  for (uint8_t prefix : prefixes) bytes.Add(prefix);
  bytes.Opcode();
  return bytes.Take();
}

std::vector<uint8_t> LongestForm(std::mt19937_64* random) {
  Bytes bytes(random);
  const uint64_t count = 6 + bytes.Below(kLongest - 6);
  // One kind mostly, as in padding.
  const uint8_t padding = kPrefixes[bytes.Below(std::size(kPrefixes))];
  for (uint64_t i = 0; i < count; ++i) {
    bytes.Add(bytes.Below(4) != 0 ? padding : kPrefixes[bytes.Below(std::size(kPrefixes))]);
  }
  bytes.Opcode();
  return bytes.Take();
}

std::vector<uint8_t> RandomBytes(std::mt19937_64* random) {
  Bytes bytes(random);
  const uint64_t prefixes = bytes.Below(5);
  for (uint64_t i = 0; i < prefixes; ++i) {
    bytes.Add(bytes.Below(3) != 0 ? kPrefixes[bytes.Below(std::size(kPrefixes))]
                                  : 0x40 + bytes.Below(16));
  }
  if (bytes.Below(3) == 0) bytes.Add(0x0f);
  return bytes.Take();
}

}  // namespace hindsight
