#include "translator/checks/compared_strings.h"

#include <Zydis/Zydis.h>

#include <algorithm>

#include "isa/operand_address.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {
namespace {

bool ComparesStrings(const GuestInstruction& instruction) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_CMPSB:
    case ZYDIS_MNEMONIC_CMPSW:
    case ZYDIS_MNEMONIC_CMPSQ:
      return true;
    case ZYDIS_MNEMONIC_CMPSD:
      return instruction.decoded.meta.category == ZYDIS_CATEGORY_STRINGOP;
    default:
      return false;
  }
}

}  // namespace

bool IsComparedString(uint64_t address, const RegisterFile& registers) {
  GuestInstruction instruction;
  if (!DecodeGuest(registers.rip, {reinterpret_cast<const uint8_t*>(registers.rip), 16},
                   &instruction) ||
      !ComparesStrings(instruction)) {
    return false;
  }
  const auto operands = instruction.Operands();
  return std::any_of(operands.begin(), operands.end(), [&](const ZydisDecodedOperand& operand) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY) return false;
    return address == OperandAddress(instruction.decoded, operand).Compute(registers);
  });
}

}  // namespace hindsight
