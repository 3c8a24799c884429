#include "isa/comparison.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "isa/decoder.h"

namespace hindsight {
namespace {

constexpr uint64_t kResume = 1 << 16;  // the kernel sets it when it single-steps
bool WordAgrees(uint64_t care, uint64_t native, uint64_t emulated) {
  return ((native ^ emulated) & care) == 0;
}

struct Words {
  explicit Words(const RegisterFile& registers) { std::memcpy(at, &registers, sizeof(at)); }
  uint64_t at[kRegisterWords];
};

}  // namespace

Agreement AgreementFor(absl::Span<const uint8_t> bytes) {
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  CHECK(Decode(bytes, &decoded, operands));
  Agreement agreement;
  std::vector<uint64_t> ones(kRegisterWords, ~uint64_t{0});
  CHECK(FromWords(ones, &agreement.care));
  RegisterFile& care = agreement.care;
  care.fip = care.fdp = care.fop = 0;
  care.rflags = ~kResume;
  if (decoded.cpu_flags != nullptr) care.rflags &= ~uint64_t{decoded.cpu_flags->undefined};
  return agreement;
}

bool Agree(const Agreement& agreement, const RegisterFile& native, const RegisterFile& emulated) {
  if (native == emulated) return true;
  const Words care(agreement.care), a(native), b(emulated);
  for (size_t i = 0; i < kRegisterWords; ++i) {
    if (!WordAgrees(care.at[i], a.at[i], b.at[i])) return false;
  }
  return true;
}

std::string DescribeDifference(const Agreement& agreement, const RegisterFile& native,
                               const RegisterFile& emulated) {
  const Words care(agreement.care), a(native), b(emulated);
  std::string text;
  for (size_t i = 0; i < kRegisterWords; ++i) {
    if (WordAgrees(care.at[i], a.at[i], b.at[i])) continue;
    absl::StrAppendFormat(&text, "%s%s %x (native %x)", text.empty() ? "" : ", ",
                          RegisterWordName(i), b.at[i], a.at[i]);
  }
  return text;
}

}  // namespace hindsight
