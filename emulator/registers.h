// The register file of an amd64 thread, layout "amd64-v1" (docs/trace-format.md).

#ifndef HINDSIGHT_EMULATOR_REGISTERS_H_
#define HINDSIGHT_EMULATOR_REGISTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "tracefmt/records.h"

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

  bool operator==(const RegisterFile& other) const {
    return std::memcmp(this, &other, sizeof(*this)) == 0;
  }
};

inline constexpr size_t kRegisterWords = 81;
static_assert(sizeof(RegisterFile) == kRegisterWords * sizeof(uint64_t));

inline RegisterWords ToWords(const RegisterFile& registers) {
  RegisterWords words(kRegisterWords);
  std::memcpy(words.data(), &registers, sizeof(registers));
  return words;
}

// Name of a word of the register file ("rax", "xmm3.hi", ...) for messages.
const char* RegisterWordName(size_t index);

// False, and `out` unchanged, if `words` has not the size of the layout.
bool FromWords(absl::Span<const uint64_t> words, RegisterFile* out);

// The words in which `after` differs from `before`.
RegisterPatch Difference(const RegisterFile& before, const RegisterFile& after);
// False if an index lies outside the layout.
bool Apply(const RegisterPatch& patch, RegisterFile* registers);
// XXH3-64 of the register file's bytes, never 0 (0 means "no hash" in a trace).
uint64_t Hash(const RegisterFile& registers);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_REGISTERS_H_
