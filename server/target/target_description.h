// The registers of an amd64 Linux thread as gdb numbers and sizes them.

#ifndef HINDSIGHT_SERVER_TARGET_TARGET_DESCRIPTION_H_
#define HINDSIGHT_SERVER_TARGET_TARGET_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "isa/registers.h"

namespace hindsight {

// Register numbers of the description, which are those of gdb's own amd64-linux description.
enum RegisterNumber : int {
  kRegisterRax = 0,
  kRegisterRbp = 6,
  kRegisterRsp = 7,
  kRegisterRip = 16,
  kRegisterEflags = 17,
  kRegisterCs = 18,
  kRegisterSt0 = 24,
  kRegisterFctrl = 32,
  kRegisterXmm0 = 40,
  kRegisterMxcsr = 56,
  kRegisterOrigRax = 57,
  kRegisterFsBase = 58,
  kRegisterGsBase = 59,
  kBasicRegisterCount = 60,  // those of RegisterSet::kSse
  kRegisterYmm0High = 60,    // bits 128 to 255 of ymm0 to ymm15
  kRegisterXmm16 = 76,
  kRegisterYmm16High = 92,
  kRegisterK0 = 108,
  kRegisterZmm0High = 116,  // bits 256 to 511 of zmm0 to zmm31
  kRegisterCount = 148,
};

enum class RegisterSet : uint8_t {
  kSse,     // what a trace of layout amd64-v1 has
  kAvx512,  // all
};

struct RegisterInfo {
  std::string name;
  int bits;
  const char* type;
  const char* group;    // nullptr: what gdb deduces from the type
  const char* feature;  // the standard feature it belongs to
};

// Indexed by register number.
absl::Span<const RegisterInfo> Registers(RegisterSet set = RegisterSet::kAvx512);

// The reply to qXfer:features:read:target.xml: one document, without includes.
const std::string& TargetXml(RegisterSet set);

// The bytes of register `number`, little-endian, as long as its description says. orig_rax is not
// part of the register file: it reads as -1, "not in a system call".
// Requires: 0 <= number < kRegisterCount.
std::string EncodeRegister(const RegisterFile& registers, int number);

// The inverse. False, and `registers` unchanged, if the number is invalid or `bytes` has another
// size. A write of orig_rax is accepted and ignored, since gdb makes one with each write of
// pc.
bool DecodeRegister(absl::Span<const uint8_t> bytes, int number, RegisterFile* registers);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_TARGET_DESCRIPTION_H_
