#include "isa/x87_environment.h"

#include <cstring>

namespace hindsight {
namespace {

constexpr uint64_t kControlMask = 0x1f3f;  // the bits that can be set and cleared
constexpr uint64_t kControlFixed = 0x40;   // the one that is always set
constexpr uint64_t kInitialControl = 0x37f;
constexpr uint64_t kExceptions = 0x3f;
constexpr uint64_t kSummary = 0x8080;
constexpr uint64_t kIntegerBit = uint64_t{1} << 63;
constexpr uint64_t kLargestExponent = 0x7fff;
constexpr size_t kRegisterBytes = 10;
constexpr unsigned kEmpty = 3;

// Offsets of the fields in the environment.
constexpr size_t kControlAt = 0, kStatusAt = 4, kTagsAt = 8, kCodeAt = 12, kOpcodeAt = 18,
                 kDataAt = 20;

unsigned Top(uint64_t status) { return status >> 11 & 7; }

// The two-bit tag of a register in use: valid, zero, or special.
unsigned Tag(const uint64_t st[2]) {
  constexpr unsigned kValid = 0, kZero = 1, kSpecial = 2;
  const uint64_t exponent = st[1] & kLargestExponent;
  if (exponent == kLargestExponent) return kSpecial;
  if (exponent == 0) return st[0] == 0 ? kZero : kSpecial;
  return (st[0] & kIntegerBit) != 0 ? kValid : kSpecial;
}

uint16_t FullTags(const RegisterFile& registers) {
  unsigned tags = 0;
  const unsigned top = Top(registers.fsw);
  for (unsigned i = 0; i < 8; ++i) {
    const bool used = (registers.ftw >> i & 1) != 0;
    tags |= (used ? Tag(registers.st[(i - top) & 7]) : kEmpty) << (2 * i);
  }
  return static_cast<uint16_t>(tags);
}

// The register file orders registers from the top of the stack, which moves.
void SetStatus(uint64_t status, RegisterFile* registers) {
  const unsigned turn = Top(status) - Top(registers->fsw);
  uint64_t turned[8][2];
  for (unsigned i = 0; i < 8; ++i) {
    std::memcpy(turned[i], registers->st[(i + turn) & 7], sizeof(turned[i]));
  }
  std::memcpy(registers->st, turned, sizeof(turned));
  registers->fsw = status;
}

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

void SetX87Control(uint64_t control, RegisterFile* registers) {
  registers->fcw = (control & kControlMask) | kControlFixed;
  // Summary and busy say whether an exception that is not masked is pending.
  const bool pending = (registers->fsw & ~registers->fcw & kExceptions) != 0;
  registers->fsw = (registers->fsw & ~kSummary) | (pending ? kSummary : 0);
}

std::array<uint8_t, kX87EnvironmentBytes> X87Environment(const RegisterFile& registers) {
  std::array<uint8_t, kX87EnvironmentBytes> out = {};
  // The upper halves of 16-bit fields are ones; the selector of the code is zero in 64-bit mode.
  auto put = [&](size_t at, uint32_t value) { std::memcpy(&out[at], &value, sizeof(value)); };
  constexpr uint32_t kOnes = 0xffff0000;
  put(kControlAt, static_cast<uint32_t>(registers.fcw) | kOnes);
  put(kStatusAt, static_cast<uint32_t>(registers.fsw) | kOnes);
  put(kTagsAt, FullTags(registers) | kOnes);
  put(kCodeAt, static_cast<uint32_t>(registers.fip));
  put(kOpcodeAt - 2, static_cast<uint32_t>(registers.fop & 0x7ff) << 16);
  put(kDataAt, static_cast<uint32_t>(registers.fdp));
  put(kDataAt + 4, kOnes);
  return out;
}

void LoadX87Environment(absl::Span<const uint8_t> environment, RegisterFile* registers) {
  const uint8_t* const from = environment.data();
  SetStatus(Load<uint16_t>(from + kStatusAt), registers);
  SetX87Control(Load<uint16_t>(from + kControlAt), registers);
  const unsigned tags = Load<uint16_t>(from + kTagsAt);
  registers->ftw = 0;
  for (unsigned i = 0; i < 8; ++i) {
    if ((tags >> (2 * i) & 3) != kEmpty) registers->ftw |= uint64_t{1} << i;
  }
  registers->fip = Load<uint32_t>(from + kCodeAt);
  registers->fop = Load<uint16_t>(from + kOpcodeAt) & 0x7ff;
  registers->fdp = Load<uint32_t>(from + kDataAt);
}

std::array<uint8_t, kX87StateBytes> X87State(const RegisterFile& registers) {
  std::array<uint8_t, kX87StateBytes> out = {};
  const auto environment = X87Environment(registers);
  std::memcpy(out.data(), environment.data(), environment.size());
  for (size_t i = 0; i < 8; ++i) {
    std::memcpy(&out[kX87EnvironmentBytes + i * kRegisterBytes], registers.st[i], kRegisterBytes);
  }
  return out;
}

void LoadX87State(absl::Span<const uint8_t> state, RegisterFile* registers) {
  LoadX87Environment(state.subspan(0, kX87EnvironmentBytes), registers);
  std::memset(registers->st, 0, sizeof(registers->st));
  for (size_t i = 0; i < 8; ++i) {
    std::memcpy(registers->st[i], state.data() + kX87EnvironmentBytes + i * kRegisterBytes,
                kRegisterBytes);
  }
}

void InitializeX87(RegisterFile* registers) {
  SetStatus(0, registers);
  registers->fcw = kInitialControl;
  registers->ftw = 0;
  registers->fop = registers->fip = registers->fdp = 0;
}

}  // namespace hindsight
