#include "server/target/target_description.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace hindsight {
namespace {

// The word of the register file that holds an integer register; nullptr for the others.
uint64_t* IntegerWord(int number, RegisterFile* r) {
  // gdb's order of the first eight differs from that of the encoding.
  static constexpr Gpr kGprs[] = {kRax, kRbx, kRcx, kRdx, kRsi, kRdi, kRbp, kRsp,
                                  kR8,  kR9,  kR10, kR11, kR12, kR13, kR14, kR15};
  if (number >= 0 && number < 16) return &r->gpr[kGprs[number]];
  switch (number) {
    case kRegisterRip:
      return &r->rip;
    case kRegisterEflags:
      return &r->rflags;
    case kRegisterCs:
      return &r->cs;
    case kRegisterCs + 1:
      return &r->ss;
    case kRegisterCs + 2:
      return &r->ds;
    case kRegisterCs + 3:
      return &r->es;
    case kRegisterCs + 4:
      return &r->fs;
    case kRegisterCs + 5:
      return &r->gs;
    case kRegisterMxcsr:
      return &r->mxcsr;
    case kRegisterFsBase:
      return &r->fs_base;
    case kRegisterGsBase:
      return &r->gs_base;
    default:
      return nullptr;
  }
}

// The two bits that FSAVE would show for the register with these contents (SDM vol. 1, 8.1.7).
uint64_t Tag(const uint64_t st[2]) {
  constexpr uint64_t kValid = 0, kZero = 1, kSpecial = 2;
  const uint64_t exponent = st[1] & 0x7fff;
  if (exponent == 0x7fff) return kSpecial;
  if (exponent == 0) return st[0] == 0 ? kZero : kSpecial;
  return st[0] >> 63 != 0 ? kValid : kSpecial;
}

uint64_t FullTagWord(const RegisterFile& r) {
  constexpr uint64_t kEmpty = 3;
  const uint64_t top = r.fsw >> 11 & 7;
  uint64_t tags = 0;
  for (uint64_t i = 0; i < 8; ++i) {
    const bool used = (r.ftw >> i & 1) != 0;
    // Tags belong to physical registers, the contents are ordered from the top of the stack.
    tags |= (used ? Tag(r.st[(i - top) & 7]) : kEmpty) << (2 * i);
  }
  return tags;
}

uint64_t AbridgedTagWord(uint64_t tags) {
  uint64_t abridged = 0;
  for (int i = 0; i < 8; ++i) abridged |= uint64_t{(tags >> (2 * i) & 3) != 3} << i;
  return abridged;
}

// fctrl, fstat, ftag, fiseg, fioff, foseg, fooff, fop: numbers 0 to 7.
uint64_t ReadControl(const RegisterFile& r, int which) {
  switch (which) {
    case 0:
      return r.fcw;
    case 1:
      return r.fsw;
    case 2:
      return FullTagWord(r);
    case 3:
      return r.fip >> 32 & 0xffff;
    case 4:
      return r.fip & 0xffffffff;
    case 5:
      return r.fdp >> 32 & 0xffff;
    case 6:
      return r.fdp & 0xffffffff;
    default:
      return r.fop;
  }
}

void WriteControl(uint64_t value, int which, RegisterFile* r) {
  constexpr uint64_t kLow = 0xffffffff;
  switch (which) {
    case 0:
      r->fcw = value & 0xffff;
      break;
    case 1:
      r->fsw = value & 0xffff;
      break;
    // Writing back what was read must change nothing, also where the tags lose information.
    case 2:
      r->ftw = AbridgedTagWord(value);
      break;
    case 3:
      r->fip = (r->fip & ~(uint64_t{0xffff} << 32)) | (value & 0xffff) << 32;
      break;
    case 4:
      r->fip = (r->fip & ~kLow) | (value & kLow);
      break;
    case 5:
      r->fdp = (r->fdp & ~(uint64_t{0xffff} << 32)) | (value & 0xffff) << 32;
      break;
    case 6:
      r->fdp = (r->fdp & ~kLow) | (value & kLow);
      break;
    default:
      r->fop = value & 0x7ff;
      break;
  }
}

// The words of the register file that hold a vector, mask or x87 register as gdb has it; nullptr
// for the others.
uint64_t* Words(int number, RegisterFile* r) {
  if (number >= kRegisterSt0 && number < kRegisterFctrl) return r->st[number - kRegisterSt0];
  if (number >= kRegisterXmm0 && number < kRegisterMxcsr) return r->xmm[number - kRegisterXmm0];
  if (number < kBasicRegisterCount || number >= kRegisterCount) return nullptr;
  if (number < kRegisterXmm16) return r->ymm_high[number - kRegisterYmm0High];
  if (number < kRegisterYmm16High) return r->zmm16[number - kRegisterXmm16];
  if (number < kRegisterK0) return r->zmm16[number - kRegisterYmm16High] + 2;
  if (number < kRegisterZmm0High) return &r->k[number - kRegisterK0];
  if (number < kRegisterZmm0High + 16) return r->zmm_high[number - kRegisterZmm0High];
  return r->zmm16[number - kRegisterZmm0High - 16] + 4;
}

// The words of a register of either kind.
uint64_t* Location(int number, RegisterFile* r) {
  uint64_t* word = IntegerWord(number, r);
  return word != nullptr ? word : Words(number, r);
}

size_t SizeBytes(int number) { return Registers()[number].bits / 8; }

std::string Raw(const uint64_t* words, size_t size_bytes) {
  return std::string(reinterpret_cast<const char*>(words), size_bytes);
}

}  // namespace

std::string EncodeRegister(const RegisterFile& registers, int number) {
  CHECK(number >= 0 && number < kRegisterCount);
  const size_t size = SizeBytes(number);
  if (const uint64_t* words = Location(number, const_cast<RegisterFile*>(&registers))) {
    return Raw(words, size);
  }
  if (number == kRegisterOrigRax) return std::string(size, '\xff');
  const uint64_t control = ReadControl(registers, number - kRegisterFctrl);
  return Raw(&control, size);
}

bool DecodeRegister(absl::Span<const uint8_t> bytes, int number, RegisterFile* registers) {
  if (number < 0 || number >= kRegisterCount || bytes.size() != SizeBytes(number)) return false;
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  if (uint64_t* word = IntegerWord(number, registers)) {
    *word = value;
  } else if (uint64_t* words = Words(number, registers)) {
    std::memcpy(words, bytes.data(), bytes.size());
  } else if (number != kRegisterOrigRax) {
    WriteControl(value, number - kRegisterFctrl, registers);
  }
  return true;
}

}  // namespace hindsight
