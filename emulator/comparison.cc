#include "emulator/comparison.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "emulator/decoder.h"
#include "emulator/instruction.h"

namespace hindsight {
namespace {

constexpr uint64_t kSign = 1 << 7, kAuxiliary = 1 << 4, kOverflow = 1 << 11;
constexpr uint64_t kResume = 1 << 16;  // the kernel sets it when it single-steps
// MXCSR and the x87 status word: an operand was denormal.
constexpr uint64_t kDenormalOperand = 2;
// x87 status word: stack fault; and C1, which tells how was rounded.
constexpr uint64_t kStackFault = 1 << 6, kC1 = 1 << 9;
constexpr uint64_t kC[4] = {1 << 8, 1 << 9, 1 << 10, 1 << 14};

constexpr uint64_t kQuietBit = uint64_t{1} << 62;

constexpr size_t kSt0Word = offsetof(RegisterFile, st) / sizeof(uint64_t);
constexpr size_t kXmmWord = offsetof(RegisterFile, xmm) / sizeof(uint64_t);

uint64_t UndefinedConditionCodes(const ZydisAccessedFlags& flags) {
  uint64_t undefined = 0;
  for (int i = 0; i < 4; ++i) {
    if ((flags.undefined & (ZYDIS_FPUFLAG_C0 << i)) != 0) undefined |= kC[i];
  }
  return undefined;
}

bool ComparesIntoFlags(ZydisMnemonic mnemonic) {
  return mnemonic == ZYDIS_MNEMONIC_FCOMI || mnemonic == ZYDIS_MNEMONIC_FCOMIP ||
         mnemonic == ZYDIS_MNEMONIC_FUCOMI || mnemonic == ZYDIS_MNEMONIC_FUCOMIP;
}

// Exception flags that Unicorn raises where the hardware does not, or the other way.
uint64_t DifferentExceptions(ZydisMnemonic mnemonic) {
  constexpr uint64_t kInvalid = 1, kDivideByZero = 4, kInexact = 0x20;
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FDIV:  // NaN, infinity or zero divided by zero
    case ZYDIS_MNEMONIC_FDIVP:
    case ZYDIS_MNEMONIC_FDIVR:
    case ZYDIS_MNEMONIC_FDIVRP:
    case ZYDIS_MNEMONIC_FIDIV:
    case ZYDIS_MNEMONIC_FIDIVR:
      return kDivideByZero;
    case ZYDIS_MNEMONIC_FIST:  // 16 bits: a number too large
    case ZYDIS_MNEMONIC_FISTP:
      return kInvalid | kInexact;
    case ZYDIS_MNEMONIC_ROUNDPD:  // with "inexact" suppressed
    case ZYDIS_MNEMONIC_ROUNDPS:
    case ZYDIS_MNEMONIC_ROUNDSD:
    case ZYDIS_MNEMONIC_ROUNDSS:
      return kInexact;
    default:
      return 0;
  }
}

// Bit scans of zero leave the register alone; Unicorn clears the upper half of a 32-bit one.
bool KeepsUpperHalf(const ZydisDecodedInstruction& decoded) {
  return decoded.operand_width == 32 &&
         (decoded.mnemonic == ZYDIS_MNEMONIC_BSF || decoded.mnemonic == ZYDIS_MNEMONIC_BSR);
}

int NanLaneBits(const ZydisDecodedInstruction& decoded, const ZydisDecodedOperand* operands) {
  if (decoded.operand_count_visible == 0) return 0;
  switch (operands[0].element_type) {
    case ZYDIS_ELEMENT_TYPE_FLOAT32:
      return 32;
    case ZYDIS_ELEMENT_TYPE_FLOAT64:
      return 64;
    default:
      return 0;
  }
}

template <typename Lane>
bool IsNan(Lane bits) {
  constexpr int kMantissaBits = sizeof(Lane) == 4 ? 23 : 52;
  constexpr Lane kInfinity =
      static_cast<Lane>(sizeof(Lane) == 4 ? 0xffull << kMantissaBits : 0x7ffull << kMantissaBits);
  return (bits & ~(Lane{1} << (sizeof(Lane) * 8 - 1))) > kInfinity;
}

bool LanesAgree(int lane_bits, uint64_t native, uint64_t emulated) {
  if (lane_bits == 64) return IsNan(native) && IsNan(emulated);
  for (int shift = 0; shift < 64; shift += 32) {
    const auto a = static_cast<uint32_t>(native >> shift);
    const auto b = static_cast<uint32_t>(emulated >> shift);
    if (a != b && !(IsNan(a) && IsNan(b))) return false;
  }
  return true;
}

bool WordAgrees(const Agreement& agreement, size_t index, uint64_t care, uint64_t native,
                uint64_t emulated) {
  if (((native ^ emulated) & care) == 0) return true;
  if (agreement.loads_x87 && index == kSt0Word) return ((native ^ emulated) & ~kQuietBit) == 0;
  return index >= kXmmWord && index < kBaseWords && agreement.nan_lane_bits != 0 &&
         LanesAgree(agreement.nan_lane_bits, native, emulated);
}

struct Words {
  explicit Words(const RegisterFile& registers) { std::memcpy(at, &registers, sizeof(at)); }
  uint64_t at[kRegisterWords];
};

}  // namespace

Agreement AgreementFor(absl::Span<const uint8_t> bytes, bool on_host) {
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  CHECK(Decode(bytes, &decoded, operands));
  Agreement agreement;
  RegisterWords ones(kRegisterWords, ~uint64_t{0});
  CHECK(FromWords(ones, &agreement.care));
  RegisterFile& care = agreement.care;
  care.fip = care.fdp = care.fop = 0;
  care.rflags = ~kResume;
  if (decoded.cpu_flags != nullptr) care.rflags &= ~uint64_t{decoded.cpu_flags->undefined};
  // What is executed on the host leaves nothing to differ.
  if (on_host || Classify(bytes).policy == Policy::kAssist) return agreement;
  const uint64_t exceptions = kDenormalOperand | DifferentExceptions(decoded.mnemonic);
  care.mxcsr = ~exceptions;
  care.fsw = ~(exceptions | kStackFault);
  if (decoded.mnemonic != ZYDIS_MNEMONIC_FXAM) care.fsw &= ~kC1;  // C1 is fxam's sign
  if (decoded.fpu_flags != nullptr) care.fsw &= ~UndefinedConditionCodes(*decoded.fpu_flags);
  if (ComparesIntoFlags(decoded.mnemonic)) care.rflags &= ~(kSign | kAuxiliary | kOverflow);
  if (decoded.mnemonic == ZYDIS_MNEMONIC_CMPXCHG && decoded.operand_width == 32) {
    care.gpr[kRax] = 0xffffffff;
  }
  if (KeepsUpperHalf(decoded)) {
    care.gpr[ZydisRegisterGetId(operands[0].reg.value)] = 0xffffffff;
  }
  agreement.loads_x87 = decoded.mnemonic == ZYDIS_MNEMONIC_FLD;
  agreement.nan_lane_bits = NanLaneBits(decoded, operands);
  return agreement;
}

bool Agree(const Agreement& agreement, const RegisterFile& native, const RegisterFile& emulated) {
  if (native == emulated) return true;
  const Words care(agreement.care), a(native), b(emulated);
  for (size_t i = 0; i < kRegisterWords; ++i) {
    if (!WordAgrees(agreement, i, care.at[i], a.at[i], b.at[i])) return false;
  }
  return true;
}

std::string DescribeDifference(const Agreement& agreement, const RegisterFile& native,
                               const RegisterFile& emulated) {
  const Words care(agreement.care), a(native), b(emulated);
  std::string text;
  for (size_t i = 0; i < kRegisterWords; ++i) {
    if (WordAgrees(agreement, i, care.at[i], a.at[i], b.at[i])) continue;
    absl::StrAppendFormat(&text, "%s%s %x (native %x)", text.empty() ? "" : ", ",
                          RegisterWordName(i), b.at[i], a.at[i]);
  }
  return text;
}

}  // namespace hindsight
