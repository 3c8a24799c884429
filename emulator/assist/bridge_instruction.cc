#include "emulator/assist/bridge_instruction.h"

#include <bit>
#include <cstring>

#include "absl/types/span.h"
#include "emulator/assist/host_plan.h"

namespace hindsight {
namespace {

constexpr uint64_t kCarry = 1, kParity = 4, kZero = 0x40, kSign = 0x80, kOverflow = 0x800;
constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF

BridgeKind KindOf(ZydisMnemonic mnemonic) {
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
    case ZYDIS_MNEMONIC_TZCNT:
    case ZYDIS_MNEMONIC_LZCNT:
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_MOVHPS:
    case ZYDIS_MNEMONIC_MOVLPS:
    case ZYDIS_MNEMONIC_MOVHPD:
    case ZYDIS_MNEMONIC_MOVLPD:
    case ZYDIS_MNEMONIC_MOVHLPS:
    case ZYDIS_MNEMONIC_MOVLHPS:
    case ZYDIS_MNEMONIC_MOVMSKPS:
    case ZYDIS_MNEMONIC_MOVMSKPD:
    case ZYDIS_MNEMONIC_PMOVMSKB:
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_POR:
    case ZYDIS_MNEMONIC_PAND:
    case ZYDIS_MNEMONIC_PANDN:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
    case ZYDIS_MNEMONIC_ANDPS:
    case ZYDIS_MNEMONIC_ANDPD:
    case ZYDIS_MNEMONIC_ANDNPS:
    case ZYDIS_MNEMONIC_ANDNPD:
    case ZYDIS_MNEMONIC_ORPS:
    case ZYDIS_MNEMONIC_ORPD:
    case ZYDIS_MNEMONIC_UNPCKLPS:
    case ZYDIS_MNEMONIC_UNPCKLPD:
    case ZYDIS_MNEMONIC_UNPCKHPS:
    case ZYDIS_MNEMONIC_UNPCKHPD:
    case ZYDIS_MNEMONIC_PUNPCKLBW:
    case ZYDIS_MNEMONIC_PUNPCKLWD:
    case ZYDIS_MNEMONIC_PUNPCKLDQ:
    case ZYDIS_MNEMONIC_PUNPCKLQDQ:
    case ZYDIS_MNEMONIC_PUNPCKHBW:
    case ZYDIS_MNEMONIC_PUNPCKHWD:
    case ZYDIS_MNEMONIC_PUNPCKHDQ:
    case ZYDIS_MNEMONIC_PUNPCKHQDQ:
    case ZYDIS_MNEMONIC_SHUFPS:
    case ZYDIS_MNEMONIC_SHUFPD:
    case ZYDIS_MNEMONIC_PSHUFD:
    case ZYDIS_MNEMONIC_PSHUFLW:
    case ZYDIS_MNEMONIC_PSHUFHW:
    case ZYDIS_MNEMONIC_PADDB:
    case ZYDIS_MNEMONIC_PADDW:
    case ZYDIS_MNEMONIC_PADDD:
    case ZYDIS_MNEMONIC_PADDQ:
    case ZYDIS_MNEMONIC_PSUBB:
    case ZYDIS_MNEMONIC_PSUBW:
    case ZYDIS_MNEMONIC_PSUBD:
    case ZYDIS_MNEMONIC_PSUBQ:
    case ZYDIS_MNEMONIC_PCMPEQB:
    case ZYDIS_MNEMONIC_PCMPEQW:
    case ZYDIS_MNEMONIC_PCMPEQD:
    case ZYDIS_MNEMONIC_PMINUB:
    case ZYDIS_MNEMONIC_PMAXUB:
    case ZYDIS_MNEMONIC_PSLLDQ:
    case ZYDIS_MNEMONIC_PSRLDQ:
    case ZYDIS_MNEMONIC_PSLLQ:
    case ZYDIS_MNEMONIC_PSRLQ:
    case ZYDIS_MNEMONIC_PSLLD:
    case ZYDIS_MNEMONIC_PSRLD:
      return BridgeKind::kHost;
    case ZYDIS_MNEMONIC_CALL:
      return BridgeKind::kCall;
    case ZYDIS_MNEMONIC_RET:
      return BridgeKind::kReturn;
    case ZYDIS_MNEMONIC_PUSH:
      return BridgeKind::kPush;
    case ZYDIS_MNEMONIC_POP:
      return BridgeKind::kPop;
    case ZYDIS_MNEMONIC_SHL:
    case ZYDIS_MNEMONIC_SHR:
    case ZYDIS_MNEMONIC_SAR:
      return BridgeKind::kShift;
    case ZYDIS_MNEMONIC_IMUL:
      return BridgeKind::kMultiply;
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
      return BridgeKind::kConditionalJump;
    case ZYDIS_MNEMONIC_JMP:
      return BridgeKind::kJump;
    case ZYDIS_MNEMONIC_LEA:
      return BridgeKind::kLea;
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_ENDBR64:
      return BridgeKind::kNop;
    default:
      return BridgeKind::kNone;
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

bool IsRegister(const ZydisDecodedOperand& operand) {
  if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) return false;
  const ZydisRegisterClass kind = ZydisRegisterGetClass(operand.reg.value);
  return kind == ZYDIS_REGCLASS_GPR64 || kind == ZYDIS_REGCLASS_GPR32 ||
         kind == ZYDIS_REGCLASS_GPR16 || kind == ZYDIS_REGCLASS_GPR8;
}

bool IsBranchTarget(const ZydisDecodedOperand& operand) {
  return operand.size == 64 && (IsRegister(operand) || operand.type == ZYDIS_OPERAND_TYPE_MEMORY);
}

bool IsStackOperand(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand& operand) {
  if (instruction.operand_width != 64) return false;
  return IsRegister(operand) || (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE);
}

// Not the form with one operand, whose result takes two registers.
bool IsWideProduct(const ZydisDecodedInstruction& instruction,
                   const ZydisDecodedOperand* operands) {
  if (instruction.operand_count_visible < 2) return false;
  return IsRegister(operands[0]) && operands[0].size >= 32 && IsRegister(operands[1]);
}

int8_t GprNumber(const ZydisDecodedOperand& operand) {
  return static_cast<int8_t>(ZydisRegisterGetId(
      ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value)));
}

absl::Span<uint8_t> AsBytes(uint64_t* word) {
  return absl::MakeSpan(reinterpret_cast<uint8_t*>(word), sizeof(*word));
}

absl::Span<const uint8_t> AsBytes(const uint64_t* word) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(word), sizeof(*word));
}

// ZF, SF and PF.
uint64_t ResultFlags(uint64_t result, uint64_t sign) {
  uint64_t flags = 0;
  if (result == 0) flags |= kZero;
  if ((result & sign) != 0) flags |= kSign;
  if (std::popcount(result & 0xff) % 2 == 0) flags |= kParity;
  return flags;
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

BridgeKind BridgeKindOf(const ZydisDecodedInstruction& instruction,
                        const ZydisDecodedOperand* operands) {
  const BridgeKind kind = KindOf(instruction.mnemonic);
  switch (kind) {
    case BridgeKind::kHost:
      if ((instruction.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0) return BridgeKind::kNone;
      // In memory the bit may be far from the address.
      if (IsBitTest(instruction.mnemonic) && operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY) {
        return BridgeKind::kNone;
      }
      return HasOtherMemory(instruction, operands) ? BridgeKind::kNone : kind;
    case BridgeKind::kJump:
      if (operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return kind;
      return IsBranchTarget(operands[0]) ? BridgeKind::kIndirectJump : BridgeKind::kNone;
    case BridgeKind::kCall:
      return operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE || IsBranchTarget(operands[0])
                 ? kind
                 : BridgeKind::kNone;
    case BridgeKind::kReturn:
      return instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_FAR ? kind : BridgeKind::kNone;
    case BridgeKind::kPush:
    case BridgeKind::kPop:
      return IsStackOperand(instruction, operands[0]) ? kind : BridgeKind::kNone;
    case BridgeKind::kShift:
      // Narrower ones are rare, and their flags odd.
      return IsRegister(operands[0]) && operands[0].size >= 32 ? kind : BridgeKind::kNone;
    case BridgeKind::kMultiply:
      return IsWideProduct(instruction, operands) ? kind : BridgeKind::kNone;
    case BridgeKind::kConditionalJump:
      return operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? kind : BridgeKind::kNone;
    case BridgeKind::kNop:
      // Not the hints that some processors reject.
      return instruction.mnemonic == ZYDIS_MNEMONIC_ENDBR64 || instruction.opcode == 0x90 ||
                     instruction.opcode == 0x1f
                 ? kind
                 : BridgeKind::kNone;
    case BridgeKind::kLea:
      return (instruction.attributes & ZYDIS_ATTRIB_HAS_SEGMENT) != 0 ? BridgeKind::kNone : kind;
    default:
      return kind;
  }
}

BridgeInstruction::BridgeInstruction(const ZydisDecodedInstruction& instruction,
                                     const ZydisDecodedOperand* operands)
    : kind_(BridgeKindOf(instruction, operands)),
      length_(instruction.length),
      condition_(instruction.opcode & 0xf),
      opcode_(instruction.raw.modrm.reg) {
  if (instruction.operand_count_visible > 0) NoteOperands(instruction, operands);
}

void BridgeInstruction::NoteOperands(const ZydisDecodedInstruction& instruction,
                                     const ZydisDecodedOperand* operands) {
  const int count = instruction.operand_count_visible;
  bytes_ = static_cast<uint8_t>(operands[0].size / 8);
  if (IsRegister(operands[0])) register_ = GprNumber(operands[0]);
  for (int i = 0; i < count; ++i) {
    const ZydisDecodedOperand& operand = operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
      value_ = static_cast<uint64_t>(operand.imm.value.s);
    } else if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      address_ = OperandAddress(instruction, operand);
      in_memory_ = true;
    }
  }
  if (count < 2) return;
  if (kind_ == BridgeKind::kShift && IsRegister(operands[1])) source_ = kRcx;
  if (kind_ == BridgeKind::kMultiply) {
    // imul a, b; imul a, b, constant
    factor_ = GprNumber(operands[count == 2 ? 0 : 1]);
    if (count == 2) source_ = GprNumber(operands[1]);
  }
}

bool BridgeInstruction::Execute(RegisterFile* registers, GuestMemory* memory) const {
  switch (kind_) {
    case BridgeKind::kLea:
      Put(address_.Compute(*registers), registers);
      break;
    case BridgeKind::kJump:
      registers->rip += value_;
      break;
    case BridgeKind::kConditionalJump:
      if (Holds(condition_, registers->rflags)) registers->rip += value_;
      break;
    case BridgeKind::kIndirectJump:
      return Target(*registers, memory, &registers->rip);
    case BridgeKind::kCall:
      return Call(registers, memory);
    case BridgeKind::kReturn:
      return Return(registers, memory);
    case BridgeKind::kPush:
      if (!Push(registers, memory)) return false;
      break;
    case BridgeKind::kPop:
      if (!Pop(registers, memory)) return false;
      break;
    case BridgeKind::kShift:
      Shift(registers);
      break;
    case BridgeKind::kMultiply:
      Multiply(registers);
      break;
    default:
      break;
  }
  registers->rip += length_;
  return true;
}

// Writing 32 bits clears the rest.
void BridgeInstruction::Put(uint64_t value, RegisterFile* registers) const {
  uint64_t& gpr = registers->gpr[register_];
  if (bytes_ == 4) gpr = 0;
  std::memcpy(&gpr, &value, bytes_);
}

// Of an indirect jump or call. A target that is not canonical faults before anything else.
bool BridgeInstruction::Target(const RegisterFile& registers, GuestMemory* memory,
                               uint64_t* target) const {
  uint64_t value = 0;
  if (!in_memory_) {
    value = registers.gpr[register_];
  } else if (!memory->Read(address_.Compute(registers), AsBytes(&value))) {
    return false;
  }
  if (!IsCanonical(value)) return false;
  *target = value;
  return true;
}

bool BridgeInstruction::Call(RegisterFile* registers, GuestMemory* memory) const {
  const uint64_t next = registers->rip + length_, to = registers->gpr[kRsp] - sizeof(next);
  uint64_t target = next + value_;
  if ((in_memory_ || register_ >= 0) && !Target(*registers, memory, &target)) return false;
  if (!memory->Write(to, AsBytes(&next))) return false;
  registers->gpr[kRsp] = to;
  registers->rip = target;
  return true;
}

bool BridgeInstruction::Return(RegisterFile* registers, GuestMemory* memory) const {
  uint64_t target = 0;
  if (!memory->Read(registers->gpr[kRsp], AsBytes(&target)) || !IsCanonical(target)) {
    return false;
  }
  registers->gpr[kRsp] += sizeof(target) + (value_ & 0xffff);
  registers->rip = target;
  return true;
}

bool BridgeInstruction::Push(RegisterFile* registers, GuestMemory* memory) const {
  const uint64_t value = register_ >= 0 ? registers->gpr[register_] : value_;
  const uint64_t to = registers->gpr[kRsp] - sizeof(value);
  if (!memory->Write(to, AsBytes(&value))) return false;
  registers->gpr[kRsp] = to;
  return true;
}

bool BridgeInstruction::Pop(RegisterFile* registers, GuestMemory* memory) const {
  uint64_t value = 0;
  if (!memory->Read(registers->gpr[kRsp], AsBytes(&value))) return false;
  registers->gpr[kRsp] += sizeof(value);
  registers->gpr[register_] = value;
  return true;
}

// The flags as Unicorn has them: AF is 0, OF whether the last bit shifted changed the sign.
void BridgeInstruction::Shift(RegisterFile* registers) const {
  constexpr uint8_t kLeft = 4, kLeftToo = 6, kArithmetic = 7;
  const unsigned bits = bytes_ * 8u;
  const uint64_t by = source_ >= 0 ? registers->gpr[source_] : value_;
  const unsigned count = by & (bits - 1);
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t before = registers->gpr[register_] & mask;
  const int64_t extended = bits == 64 ? static_cast<int64_t>(before) : static_cast<int32_t>(before);
  const auto shifted = [&](unsigned n) -> uint64_t {
    if (opcode_ == kLeft || opcode_ == kLeftToo) return before << n & mask;
    if (opcode_ == kArithmetic) return static_cast<uint64_t>(extended >> n) & mask;
    return before >> n;
  };
  const uint64_t result = shifted(count);
  Put(result, registers);
  if (count == 0) return;
  const uint64_t last = shifted(count - 1), sign = uint64_t{1} << (bits - 1);
  const bool left = opcode_ == kLeft || opcode_ == kLeftToo;
  uint64_t flags = ResultFlags(result, sign);
  if ((last & (left ? sign : 1)) != 0) flags |= kCarry;
  if (((last ^ result) & sign) != 0) flags |= kOverflow;
  registers->rflags = (registers->rflags & ~kArithmeticFlags) | flags;
}

// ZF, SF and PF, which the architecture leaves undefined, as Unicorn has them: of the result.
void BridgeInstruction::Multiply(RegisterFile* registers) const {
  const unsigned bits = bytes_ * 8u;
  const uint64_t a = registers->gpr[factor_], b = source_ >= 0 ? registers->gpr[source_] : value_;
  __int128 product = 0;
  uint64_t result = 0;
  bool overflow = false;
  if (bits == 64) {
    product = static_cast<__int128>(static_cast<int64_t>(a)) * static_cast<int64_t>(b);
    result = static_cast<uint64_t>(product);
    overflow = product != static_cast<int64_t>(result);
  } else {
    product = static_cast<int64_t>(static_cast<int32_t>(a)) * static_cast<int32_t>(b);
    result = static_cast<uint32_t>(product);
    overflow = product != static_cast<int32_t>(result);
  }
  Put(result, registers);
  uint64_t flags = ResultFlags(result, uint64_t{1} << (bits - 1));
  if (overflow) flags |= kCarry | kOverflow;
  registers->rflags = (registers->rflags & ~kArithmeticFlags) | flags;
}

}  // namespace hindsight
