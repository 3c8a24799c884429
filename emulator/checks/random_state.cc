#include "emulator/checks/random_state.h"

#include <Zydis/Zydis.h>

#include <iterator>

#include "isa/host_features.h"

namespace hindsight {
namespace {

constexpr uint64_t kDoubles[] = {0,
                                 0x8000000000000000,
                                 0x3ff0000000000000,
                                 0xbff0000000000000,
                                 0x7ff0000000000000,
                                 0xfff0000000000000,  // infinities
                                 0x7ff8000000000000,
                                 0x7ff4000000000001,  // quiet and signalling NaN
                                 0xfff8000000000123,
                                 1,
                                 0x000fffffffffffff,  // denormals
                                 0x0010000000000000,
                                 0x7fefffffffffffff,  // least and greatest normal
                                 0x4330000000000001,
                                 0x43e0000000000000,
                                 0xc3e0000000000000,  // 2^52 + 1, +-2^63
                                 0x41dfffffffc00000,
                                 0x3fe0000000000000,
                                 0x3ff8000000000000,
                                 0xc004000000000000};
constexpr uint32_t kFloats[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                0xff800000, 0x7fc00000, 0x7fa00001, 0xffc00123, 1,
                                0x7fffff,   0x800000,   0x7f7fffff, 0x4b000001, 0x4f000000,
                                0xcf000000, 0x3f000000, 0x3fc00000, 0xc0200000};

constexpr uint64_t kArithmeticFlags = 0x8d5, kDirectionFlag = 0x400;
constexpr uint64_t kIntegerBit = uint64_t{1} << 63;

uint32_t FloatNear1(uint64_t bits) { return (bits & 0x807fffff) | (100 + bits / 97 % 56) << 23; }

}  // namespace

uint64_t RandomState::Integer() {
  switch (Below(8)) {
    case 0:
      return Below(4);
    case 1:
      return -Below(4);
    case 2:
      return uint64_t{1} << Below(64);
    case 3:
      return (uint64_t{1} << Below(64)) - 1;
    case 4:
      return random_() & random_();
    default:
      return random_();
  }
}

uint64_t RandomState::Float() {
  auto single = [this]() -> uint64_t {
    return Below(2) != 0 ? kFloats[Below(std::size(kFloats))] : FloatNear1(random_());
  };
  switch (Below(5)) {
    case 0:
      return kDoubles[Below(std::size(kDoubles))];
    case 1:
      return (random_() & 0x800fffffffffffff) | (1000 + Below(50)) << 52;
    case 2:
    case 3:
      return single() | single() << 32;
    default:
      return random_();
  }
}

RegisterFile RandomState::Registers() {
  RegisterFile registers;
  for (uint64_t& gpr : registers.gpr) gpr = Integer();
  registers.gpr[kRsp] = 0;
  registers.rflags = 0x202 | (random_() & kArithmeticFlags);
  if (Below(8) == 0) registers.rflags |= kDirectionFlag;
  registers.mxcsr = Mxcsr() | 0x1f80;
  for (auto& xmm : registers.xmm) Fill(xmm, std::size(xmm));
  X87(&registers);
  Extended(&registers);
  return registers;
}

void RandomState::Fill(uint64_t* words, size_t count) {
  const bool floating = Below(3) != 0;
  for (size_t i = 0; i < count; ++i) words[i] = floating ? Float() : Integer();
}

void RandomState::Extended(RegisterFile* registers) {
  const HostFeatures host = HostFeatures::OfThisHost();
  if (!host.Has(HostFeature::kAvx)) return;
  for (auto& high : registers->ymm_high) Fill(high, std::size(high));
  if (!host.Has(HostFeature::kAvx512F)) return;
  for (auto& high : registers->zmm_high) Fill(high, std::size(high));
  for (auto& zmm : registers->zmm16) Fill(zmm, std::size(zmm));
  const bool wide = host.Has(HostFeature::kAvx512Bw);
  for (uint64_t& k : registers->k) k = Below(4) == 0 ? random_() : Integer();
  for (uint64_t& k : registers->k) k &= wide ? ~uint64_t{0} : 0xffff;
}

uint64_t RandomState::Mxcsr() {
  uint64_t mxcsr = 0x1f80 | Below(4) << 13 | Below(64);
  if (Below(4) == 0) mxcsr |= 0x8000;                         // flush to zero
  if (Below(4) == 0) mxcsr |= 0x40;                           // denormals are zero
  if (Below(8) == 0) mxcsr &= ~(uint64_t{0x80} << Below(6));  // one exception is not masked
  return mxcsr;
}

void RandomState::X87(RegisterFile* registers) {
  static constexpr uint64_t kPrecision[] = {0, 2, 3};
  registers->fcw = 0x7f | Below(4) << 10 | kPrecision[Below(3)] << 8;
  if (Below(2) != 0) registers->fcw = 0x37f;
  const uint64_t top = Below(8);
  registers->fsw = top << 11 | (random_() & 0x4700);
  if (Below(2) != 0) registers->fsw |= Below(64);  // exceptions that occurred, all of them masked
  registers->ftw = Below(4) != 0 ? 0xff : random_() & 0xff;
  for (auto& st : registers->st) {
    const uint64_t sign = random_() & 0x8000;
    st[0] = Integer() | kIntegerBit;
    st[1] = sign | (0x3fff - 20 + Below(40));
    switch (Below(10)) {
      case 0:  // zero
        st[0] = 0, st[1] = sign;
        break;
      case 1:  // infinity
        st[0] = kIntegerBit, st[1] = sign | 0x7fff;
        break;
      case 2:  // quiet NaN
        st[0] |= uint64_t{3} << 62, st[1] = sign | 0x7fff;
        break;
      case 3:  // denormal
        st[0] &= ~kIntegerBit, st[1] = sign;
        break;
      case 8:  // signalling NaN
        st[0] = kIntegerBit | (random_() >> 2) | 1, st[1] = sign | 0x7fff;
        break;
      case 9:  // what only older processors made: pseudo-denormals, unnormals, pseudo-infinities
        st[0] = random_(), st[1] = sign | (Below(3) * 0x3fff + Below(2));
        break;
      case 4:  // near the limits of integers
        st[1] = sign | (0x3fff + Below(70));
        break;
      default:
        break;
    }
  }
}

void MakeRoomFor(uint16_t mnemonic, RegisterFile* registers) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FLD:
    case ZYDIS_MNEMONIC_FILD:
    case ZYDIS_MNEMONIC_FLD1:
    case ZYDIS_MNEMONIC_FLDZ:
      registers->ftw = 0xff & ~(uint64_t{1} << (((registers->fsw >> 11) + 7) & 7));
      break;
    default:
      break;
  }
}

}  // namespace hindsight
