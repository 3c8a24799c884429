#include "emulator/plain_instruction.h"

#include <cstring>

#include "emulator/assist_plan.h"

namespace hindsight {
namespace {

constexpr uint64_t kCarry = 1, kParity = 4, kZero = 0x40, kSign = 0x80, kOverflow = 0x800;

PlainKind KindOf(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_ADC:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_INC:
    case ZYDIS_MNEMONIC_DEC:
    case ZYDIS_MNEMONIC_NEG:
    case ZYDIS_MNEMONIC_NOT:
    case ZYDIS_MNEMONIC_BT:
    case ZYDIS_MNEMONIC_BTC:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTS:
    case ZYDIS_MNEMONIC_CDQ:
    case ZYDIS_MNEMONIC_CQO:
    case ZYDIS_MNEMONIC_CDQE:
    case ZYDIS_MNEMONIC_CWDE:
    case ZYDIS_MNEMONIC_CMOVB:
    case ZYDIS_MNEMONIC_CMOVBE:
    case ZYDIS_MNEMONIC_CMOVL:
    case ZYDIS_MNEMONIC_CMOVLE:
    case ZYDIS_MNEMONIC_CMOVNB:
    case ZYDIS_MNEMONIC_CMOVNBE:
    case ZYDIS_MNEMONIC_CMOVNL:
    case ZYDIS_MNEMONIC_CMOVNLE:
    case ZYDIS_MNEMONIC_CMOVNO:
    case ZYDIS_MNEMONIC_CMOVNP:
    case ZYDIS_MNEMONIC_CMOVNS:
    case ZYDIS_MNEMONIC_CMOVNZ:
    case ZYDIS_MNEMONIC_CMOVO:
    case ZYDIS_MNEMONIC_CMOVP:
    case ZYDIS_MNEMONIC_CMOVS:
    case ZYDIS_MNEMONIC_CMOVZ:
    case ZYDIS_MNEMONIC_SETB:
    case ZYDIS_MNEMONIC_SETBE:
    case ZYDIS_MNEMONIC_SETL:
    case ZYDIS_MNEMONIC_SETLE:
    case ZYDIS_MNEMONIC_SETNB:
    case ZYDIS_MNEMONIC_SETNBE:
    case ZYDIS_MNEMONIC_SETNL:
    case ZYDIS_MNEMONIC_SETNLE:
    case ZYDIS_MNEMONIC_SETNO:
    case ZYDIS_MNEMONIC_SETNP:
    case ZYDIS_MNEMONIC_SETNS:
    case ZYDIS_MNEMONIC_SETNZ:
    case ZYDIS_MNEMONIC_SETO:
    case ZYDIS_MNEMONIC_SETP:
    case ZYDIS_MNEMONIC_SETS:
    case ZYDIS_MNEMONIC_SETZ:
      return PlainKind::kHost;
    case ZYDIS_MNEMONIC_JB:
    case ZYDIS_MNEMONIC_JBE:
    case ZYDIS_MNEMONIC_JL:
    case ZYDIS_MNEMONIC_JLE:
    case ZYDIS_MNEMONIC_JNB:
    case ZYDIS_MNEMONIC_JNBE:
    case ZYDIS_MNEMONIC_JNL:
    case ZYDIS_MNEMONIC_JNLE:
    case ZYDIS_MNEMONIC_JNO:
    case ZYDIS_MNEMONIC_JNP:
    case ZYDIS_MNEMONIC_JNS:
    case ZYDIS_MNEMONIC_JNZ:
    case ZYDIS_MNEMONIC_JO:
    case ZYDIS_MNEMONIC_JP:
    case ZYDIS_MNEMONIC_JS:
    case ZYDIS_MNEMONIC_JZ:
      return PlainKind::kConditionalJump;
    case ZYDIS_MNEMONIC_JMP:
      return PlainKind::kJump;
    case ZYDIS_MNEMONIC_LEA:
      return PlainKind::kLea;
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_ENDBR64:
      return PlainKind::kNop;
    default:
      return PlainKind::kNone;
  }
}

// Only what names its memory by ModRM can have it replaced.
bool HasOtherMemory(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand* operands) {
  for (int i = 0; i < instruction.operand_count; ++i) {
    if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
        operands[i].encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM) {
      return true;
    }
  }
  return false;
}

// The even conditions of an opcode; odd ones are their opposites.
bool Holds(uint8_t condition, uint64_t flags) {
  bool holds = false;
  switch (condition >> 1) {
    case 0:
      holds = (flags & kOverflow) != 0;
      break;
    case 1:
      holds = (flags & kCarry) != 0;
      break;
    case 2:
      holds = (flags & kZero) != 0;
      break;
    case 3:
      holds = (flags & (kCarry | kZero)) != 0;
      break;
    case 4:
      holds = (flags & kSign) != 0;
      break;
    case 5:
      holds = (flags & kParity) != 0;
      break;
    case 6:
      holds = ((flags & kSign) != 0) != ((flags & kOverflow) != 0);
      break;
    default:
      holds = (flags & kZero) != 0 || ((flags & kSign) != 0) != ((flags & kOverflow) != 0);
      break;
  }
  return holds != ((condition & 1) != 0);
}

}  // namespace

PlainKind PlainKindOf(const ZydisDecodedInstruction& instruction,
                      const ZydisDecodedOperand* operands) {
  const PlainKind kind = KindOf(instruction.mnemonic);
  switch (kind) {
    case PlainKind::kHost:
      if ((instruction.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0) return PlainKind::kNone;
      // In memory the bit may be far from the address.
      if (IsBitTest(instruction.mnemonic) && operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY) {
        return PlainKind::kNone;
      }
      return HasOtherMemory(instruction, operands) ? PlainKind::kNone : kind;
    case PlainKind::kJump:
    case PlainKind::kConditionalJump:
      return operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? kind : PlainKind::kNone;
    case PlainKind::kNop:
      // Not the hints that some processors reject.
      return instruction.mnemonic == ZYDIS_MNEMONIC_ENDBR64 || instruction.opcode == 0x90 ||
                     instruction.opcode == 0x1f
                 ? kind
                 : PlainKind::kNone;
    case PlainKind::kLea:
      return (instruction.attributes & ZYDIS_ATTRIB_HAS_SEGMENT) != 0 ? PlainKind::kNone : kind;
    default:
      return kind;
  }
}

PlainInstruction::PlainInstruction(const ZydisDecodedInstruction& instruction,
                                   const ZydisDecodedOperand* operands)
    : kind_(PlainKindOf(instruction, operands)),
      length_(instruction.length),
      condition_(instruction.opcode & 0xf) {
  if (kind_ == PlainKind::kLea) {
    address_ = OperandAddress(instruction, operands[1]);
    bytes_ = static_cast<uint8_t>(operands[0].size / 8);
    register_ = static_cast<uint8_t>(ZydisRegisterGetId(
        ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operands[0].reg.value)));
  } else if (kind_ != PlainKind::kNop) {
    distance_ = static_cast<uint64_t>(operands[0].imm.value.s);
  }
}

void PlainInstruction::Execute(RegisterFile* registers) const {
  switch (kind_) {
    case PlainKind::kLea: {
      const uint64_t value = address_.Compute(*registers);
      if (bytes_ == 4) registers->gpr[register_] = 0;  // writing 32 bits clears the rest
      std::memcpy(&registers->gpr[register_], &value, bytes_);
      break;
    }
    case PlainKind::kJump:
      registers->rip += distance_;
      break;
    case PlainKind::kConditionalJump:
      if (Holds(condition_, registers->rflags)) registers->rip += distance_;
      break;
    default:
      break;
  }
  registers->rip += length_;
}

}  // namespace hindsight
