#include <algorithm>
#include <string>

#include "emulator/checks/encodings.h"
#include "emulator/code/instruction.h"

namespace hindsight {
namespace {

// The operand after the opcode: a register, [rdi], or [rdi + vector register * 4].
enum class Rm { kRegister, kMemory, kVectorIndex };

bool IsIndexedByVector(const Instruction& instruction) {
  const std::string name = MnemonicName(instruction.mnemonic);
  return name.find("gather") != std::string::npos || name.find("scatter") != std::string::npos;
}

class VectorEncoder {
 public:
  explicit VectorEncoder(std::mt19937_64* random) : random_(random) {}

  // `fields`: map, prefix (pp) and W of the opcode; `length` 0 to 2.
  bool Vex(int map, int pp, int wide, int length, int opcode, Rm rm, Encoding* out) {
    // The third operand is refused where there is none; then it must be 15, inverted 0.
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const unsigned vvvv = attempt % 2 == 0 ? Below(16) : 0;
      Begin();
      Byte(0xc4);
      Byte((Below(2) << 7) | 0x40 | RmExtension(rm) << 5 | static_cast<unsigned>(map));
      Byte(wide << 7 | (~vvvv & 0xf) << 3 | length << 2 | pp);
      if (Finish(opcode, rm, out)) return true;
    }
    return false;
  }

  bool Evex(int map, int pp, int wide, int length, bool b, int opcode, Rm rm, Encoding* out) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const unsigned vvvv = attempt % 2 == 0 ? Below(16) : 0;
      const unsigned vvvv_high = attempt % 2 == 0 ? Below(2) : 0;
      const unsigned mask = attempt < kAttempts / 2 ? 1 + Below(7) : 0;
      const unsigned zeroing = mask != 0 ? Below(2) : 0;
      Begin();
      Byte(0x62);
      Byte(Below(2) << 7 | 0x40 | RmExtension(rm) << 5 | Below(2) << 4 |
           static_cast<unsigned>(map));
      Byte(wide << 7 | (~vvvv & 0xf) << 3 | 4 | pp);
      Byte(zeroing << 7 | length << 5 | (b ? 0x10 : 0) | (vvvv_high ^ 1) << 3 | mask);
      if (Finish(opcode, rm, out)) return true;
    }
    return false;
  }

 private:
  static constexpr int kAttempts = 8;

  unsigned Below(unsigned limit) { return static_cast<unsigned>((*random_)() % limit); }
  // REX.B's inverse. With memory it stays one, so that the base is rdi.
  unsigned RmExtension(Rm rm) { return rm == Rm::kRegister ? Below(2) : 1; }

  void Begin() { bytes_.clear(); }
  void Byte(unsigned byte) { bytes_.push_back(static_cast<uint8_t>(byte)); }

  bool Finish(int opcode, Rm rm, Encoding* out) {
    Byte(static_cast<unsigned>(opcode));
    const unsigned reg = Below(8);
    switch (rm) {
      case Rm::kRegister:
        Byte(0xc0 | reg << 3 | Below(8));
        break;
      case Rm::kMemory:
        Byte(reg << 3 | 7);
        break;
      case Rm::kVectorIndex:
        Byte(reg << 3 | 4);
        Byte(2 << 6 | Below(8) << 3 | 7);
        break;
    }
    while (bytes_.size() < 15) Byte(Below(256));
    std::copy(bytes_.begin(), bytes_.end(), out->bytes.begin());
    const Instruction instruction = Classify(out->bytes);
    out->length = instruction.length;
    if (rm == Rm::kVectorIndex && !IsIndexedByVector(instruction)) return false;
    return out->length != 0;
  }

  std::mt19937_64* random_;
  std::vector<uint8_t> bytes_;
};

}  // namespace

std::vector<Encoding> AllVectorEncodings(std::mt19937_64* random) {
  std::vector<Encoding> encodings;
  VectorEncoder encoder(random);
  Encoding encoding;
  for (int map : {1, 2, 3}) {
    for (int fields = 0; fields < 8; ++fields) {
      const int pp = fields & 3, wide = fields >> 2;
      for (int opcode = 0; opcode < 256; ++opcode) {
        for (Rm rm : {Rm::kRegister, Rm::kMemory, Rm::kVectorIndex}) {
          for (int length : {0, 1}) {
            if (encoder.Vex(map, pp, wide, length, opcode, rm, &encoding)) {
              encodings.push_back(encoding);
            }
          }
          for (int length : {0, 1, 2}) {
            for (bool b : {false, true}) {
              if (encoder.Evex(map, pp, wide, length, b, opcode, rm, &encoding)) {
                encodings.push_back(encoding);
              }
            }
          }
        }
      }
    }
  }
  return encodings;
}

}  // namespace hindsight
