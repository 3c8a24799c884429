#include "emulator/checks/encodings.h"

#include <algorithm>

#include "emulator/code/instruction.h"

namespace hindsight {
namespace {

enum Map { kOneByte, k0F, k0F38, k0F3A };

bool IsPrefixOrEscape(Map map, int opcode) {
  if (map == k0F) return opcode == 0x38 || opcode == 0x3a || opcode == 0x0f;
  if (map != kOneByte) return false;
  if (opcode >= 0x40 && opcode <= 0x4f) return true;  // REX
  static constexpr int kOthers[] = {0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x0f, 0x2e, 0x26,
                                    0x36, 0x3e, 0x64, 0x65, 0xc4, 0xc5, 0x62};
  return std::find(std::begin(kOthers), std::end(kOthers), opcode) != std::end(kOthers);
}

// One opcode with its prefixes; makes encodings for ModRM bytes.
struct Stem {
  int prefix = 0;  // 0, 0x66, 0xf2, 0xf3
  bool wide = false;
  Map map = kOneByte;
  int opcode = 0;

  Encoding WithModRm(int modrm, std::mt19937_64* random) const {
    std::vector<uint8_t> bytes;
    if (prefix != 0) bytes.push_back(static_cast<uint8_t>(prefix));
    if (wide) bytes.push_back(0x48);
    if (map != kOneByte) bytes.push_back(0x0f);
    if (map == k0F38) bytes.push_back(0x38);
    if (map == k0F3A) bytes.push_back(0x3a);
    bytes.push_back(static_cast<uint8_t>(opcode));
    bytes.push_back(static_cast<uint8_t>(modrm));
    while (bytes.size() < 15) bytes.push_back(static_cast<uint8_t>((*random)()));
    Encoding encoding;
    std::copy(bytes.begin(), bytes.end(), encoding.bytes.begin());
    encoding.length = Classify(encoding.bytes).length;
    return encoding;
  }
};

int RandomRegisterButRsp(std::mt19937_64* random) {
  int rm;
  do rm = static_cast<int>((*random)() % 8);
  while (rm == 4);
  return rm;
}

void AddStem(const Stem& stem, std::mt19937_64* random, std::vector<Encoding>* out) {
  auto add = [&](int modrm) {
    Encoding encoding = stem.WithModRm(modrm, random);
    if (encoding.length != 0) out->push_back(encoding);
  };
  const bool x87 = stem.map == kOneByte && stem.opcode >= 0xd8 && stem.opcode <= 0xdf;
  if (x87 && (stem.prefix != 0 || stem.wide)) return;
  for (int reg = 0; reg < 8; ++reg) {
    add(reg << 3 | 7);
    if (!x87) {
      add(0xc0 | reg << 3 | RandomRegisterButRsp(random));
      continue;
    }
    for (int rm = 0; rm < 8; ++rm) add(0xc0 | reg << 3 | rm);
  }
}

}  // namespace

std::vector<Encoding> AllEncodings(std::mt19937_64* random) {
  std::vector<Encoding> encodings;
  for (int prefix : {0, 0x66, 0xf2, 0xf3}) {
    for (bool wide : {false, true}) {
      for (Map map : {kOneByte, k0F, k0F38, k0F3A}) {
        for (int opcode = 0; opcode < 256; ++opcode) {
          if (IsPrefixOrEscape(map, opcode)) continue;
          AddStem({.prefix = prefix, .wide = wide, .map = map, .opcode = opcode}, random,
                  &encodings);
        }
      }
    }
  }
  return encodings;
}

}  // namespace hindsight
