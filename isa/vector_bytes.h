// The bytes of one vector register, which the register file keeps in up to three places.

#ifndef HINDSIGHT_ISA_VECTOR_BYTES_H_
#define HINDSIGHT_ISA_VECTOR_BYTES_H_

#include <cstdint>
#include <cstring>

#include "isa/registers.h"

namespace hindsight {

struct VectorBytes {
  uint8_t at[64];
};

inline VectorBytes ReadVector(const RegisterFile& registers, int number) {
  VectorBytes out;
  if (number >= 16) {
    std::memcpy(out.at, registers.zmm16[number - 16], 64);
  } else {
    std::memcpy(out.at, registers.xmm[number], 16);
    std::memcpy(out.at + 16, registers.ymm_high[number], 16);
    std::memcpy(out.at + 32, registers.zmm_high[number], 32);
  }
  return out;
}

inline void WriteVector(int number, const VectorBytes& bytes, RegisterFile* registers) {
  if (number >= 16) {
    std::memcpy(registers->zmm16[number - 16], bytes.at, 64);
  } else {
    std::memcpy(registers->xmm[number], bytes.at, 16);
    std::memcpy(registers->ymm_high[number], bytes.at + 16, 16);
    std::memcpy(registers->zmm_high[number], bytes.at + 32, 32);
  }
}

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_VECTOR_BYTES_H_
