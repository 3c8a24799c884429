// Every legacy encoding of the 64-bit instruction set, for tests: opcode maps x mandatory prefixes
// x REX.W x ModRM.reg, each with a memory operand [rdi] and with a register.

#ifndef HINDSIGHT_EMULATOR_CHECKS_ENCODINGS_H_
#define HINDSIGHT_EMULATOR_CHECKS_ENCODINGS_H_

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace hindsight {

struct Encoding {
  std::array<uint8_t, 15> bytes = {};
  int length = 0;
};

// VEX and EVEX: opcode maps x prefixes x W x vector length x, for EVEX, broadcast or rounding, each
// with ModRM.reg, the other registers, the opmask and zeroing from `random`, with memory [rdi] or
// [rdi + vector] and with a register. Those that decode.
std::vector<Encoding> AllVectorEncodings(std::mt19937_64* random);

// Those that decode. Immediates and the register operands not enumerated come from `random`.
std::vector<Encoding> AllEncodings(std::mt19937_64* random);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CHECKS_ENCODINGS_H_
