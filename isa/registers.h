// The register file of an amd64 thread, layout "amd64-v2" (docs/trace-format.md).
//
// The first kBaseWords words are layout "amd64-v1", which older traces have. What follows, the
// *extended* registers, is zero in most threads.

#ifndef HINDSIGHT_ISA_REGISTERS_H_
#define HINDSIGHT_ISA_REGISTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {

// General registers by hardware encoding number.
enum Gpr : int {
  kRax,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR8,
  kR9,
  kR10,
  kR11,
  kR12,
  kR13,
  kR14,
  kR15
};

struct RegisterFile {
  uint64_t gpr[16] = {};
  uint64_t rip = 0;
  uint64_t rflags = 0;  // never has TF set by us
  uint64_t fs_base = 0;
  uint64_t gs_base = 0;
  uint64_t cs = 0, ss = 0, ds = 0, es = 0, fs = 0, gs = 0;  // selectors
  uint64_t mxcsr = 0;
  uint64_t fcw = 0, fsw = 0;
  uint64_t ftw = 0;  // abridged as in FXSAVE: bit i set: physical x87 register i is in use
  uint64_t fop = 0, fip = 0, fdp = 0;
  // ST(0)..ST(7) as FXSAVE orders them: [i][0] the significand, [i][1] sign and exponent (16 bits).
  uint64_t st[8][2] = {};
  uint64_t xmm[16][2] = {};
  // The extended registers: what lies above xmm0..xmm15, in bits 128..255 and 256..511; the
  // registers that only EVEX instructions reach; the opmask registers.
  uint64_t ymm_high[16][2] = {};
  uint64_t zmm_high[16][4] = {};
  uint64_t zmm16[16][8] = {};  // zmm16..zmm31
  uint64_t k[8] = {};

  bool operator==(const RegisterFile& other) const {
    return std::memcmp(this, &other, sizeof(*this)) == 0;
  }
};

inline constexpr size_t kRegisterWords = 313;
inline constexpr size_t kBaseWords = 81;
static_assert(sizeof(RegisterFile) == kRegisterWords * sizeof(uint64_t));
static_assert(offsetof(RegisterFile, ymm_high) == kBaseWords * sizeof(uint64_t));

// The names of the layout in traces, and of the older one that is read as well.
inline constexpr char kRegisterLayout[] = "amd64-v2";
inline constexpr char kBaseRegisterLayout[] = "amd64-v1";

inline std::vector<uint64_t> ToWords(const RegisterFile& registers) {
  std::vector<uint64_t> words(kRegisterWords);
  std::memcpy(words.data(), &registers, sizeof(registers));
  return words;
}

// Whether an extended register is not zero.
bool HasExtended(const RegisterFile& registers);

// Name of a word of the register file ("rax", "xmm3.hi", "zmm17.5", ...) for messages.
const char* RegisterWordName(size_t index);

// Words of either layout; with the older one the extended registers become zero. False, with `out`
// unchanged, if `words` has the size of neither.
bool FromWords(absl::Span<const uint64_t> words, RegisterFile* out);

// XXH3-64 of the register file's bytes, without the extended registers if all of them are zero, so
// that hashes in traces of the older layout stay valid. Never 0 (0 means "no hash" in a trace).
uint64_t Hash(const RegisterFile& registers);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_REGISTERS_H_
