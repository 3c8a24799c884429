#include "translator/checks/host_choices.h"

#include "isa/cpuid.h"
#include "isa/operand_address.h"

namespace hindsight {
namespace {

bool IsAmd() {
  constexpr uint32_t kAuth = 0x68747541;  // the first letters of AuthenticAMD
  static const bool is_amd = HostCpuid(0, 0).ebx == kAuth;
  return is_amd;
}

bool IsString32(const GuestInstruction& instruction) {
  return instruction.decoded.meta.category == ZYDIS_CATEGORY_STRINGOP &&
         instruction.decoded.address_width == 32;
}

}  // namespace

bool LeavesOverflowOpen(const GuestInstruction& instruction) {
  if (IsAmd()) return false;
  const ZydisAccessedFlags* const flags = instruction.decoded.cpu_flags;
  return instruction.decoded.meta.category == ZYDIS_CATEGORY_ROTATE && flags != nullptr &&
         (flags->undefined & ZYDIS_CPUFLAG_OF) != 0;
}

bool LeavesUpperHalvesOpen(const GuestInstruction& instruction) {
  return !IsAmd() && IsString32(instruction);
}

bool LeavesTopOpen(const GuestInstruction& instruction) {
  return !IsAmd() && instruction.decoded.mnemonic == ZYDIS_MNEMONIC_MOVNTQ;
}

uint64_t SplitStoreAt(const GuestInstruction& instruction, const RegisterFile& registers) {
  if (IsAmd()) return 0;
  constexpr int kTenBytesInBits = 80;
  const ZydisMnemonic mnemonic = instruction.decoded.mnemonic;
  const ZydisDecodedOperand& operand = instruction.operands[0];
  const bool splits = (mnemonic == ZYDIS_MNEMONIC_FBSTP || mnemonic == ZYDIS_MNEMONIC_FSTP) &&
                      operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.size == kTenBytesInBits;
  return splits ? OperandAddress(instruction.decoded, operand).Compute(registers) : 0;
}

void ClearUpperHalves(const GuestInstruction& faulting, RegisterFile* registers) {
  if (IsAmd() || !IsString32(faulting)) return;
  for (const int number : {kRcx, kRsi, kRdi}) {
    registers->gpr[number] = static_cast<uint32_t>(registers->gpr[number]);
  }
}

bool RestoresFlagsAtFault(const GuestInstruction& faulting) {
  return !IsAmd() && faulting.decoded.meta.category == ZYDIS_CATEGORY_STRINGOP;
}

}  // namespace hindsight
