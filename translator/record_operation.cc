#include "translator/record_operation.h"

#include <optional>

#include "isa/registers.h"
#include "translator/record_locked.h"
#include "translator/runtime/operation.h"
#include "translator/substitution.h"

namespace hindsight {
namespace {

std::optional<HsOperationKind> KindOf(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
      return kHsAdd;
    case ZYDIS_MNEMONIC_OR:
      return kHsOr;
    case ZYDIS_MNEMONIC_ADC:
      return kHsAdc;
    case ZYDIS_MNEMONIC_SBB:
      return kHsSbb;
    case ZYDIS_MNEMONIC_AND:
      return kHsAnd;
    case ZYDIS_MNEMONIC_SUB:
      return kHsSub;
    case ZYDIS_MNEMONIC_XOR:
      return kHsXor;
    case ZYDIS_MNEMONIC_BT:
      return kHsBt;
    case ZYDIS_MNEMONIC_BTS:
      return kHsBts;
    case ZYDIS_MNEMONIC_BTR:
      return kHsBtr;
    case ZYDIS_MNEMONIC_BTC:
      return kHsBtc;
    case ZYDIS_MNEMONIC_XADD:
      return kHsXadd;
    case ZYDIS_MNEMONIC_XCHG:
      return kHsXchg;
    case ZYDIS_MNEMONIC_CMPXCHG:
      return kHsCmpxchg;
    case ZYDIS_MNEMONIC_INC:
      return kHsInc;
    case ZYDIS_MNEMONIC_DEC:
      return kHsDec;
    case ZYDIS_MNEMONIC_NOT:
      return kHsNot;
    case ZYDIS_MNEMONIC_NEG:
      return kHsNeg;
    case ZYDIS_MNEMONIC_CMPXCHG8B:
    case ZYDIS_MNEMONIC_CMPXCHG16B:
      return kHsCmpxchgPair;
    case ZYDIS_MNEMONIC_MOVSB:
    case ZYDIS_MNEMONIC_MOVSW:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_MOVSQ:
      return kHsMovs;
    case ZYDIS_MNEMONIC_STOSB:
    case ZYDIS_MNEMONIC_STOSW:
    case ZYDIS_MNEMONIC_STOSD:
    case ZYDIS_MNEMONIC_STOSQ:
      return kHsStos;
    case ZYDIS_MNEMONIC_LODSB:
    case ZYDIS_MNEMONIC_LODSW:
    case ZYDIS_MNEMONIC_LODSD:
    case ZYDIS_MNEMONIC_LODSQ:
      return kHsLods;
    case ZYDIS_MNEMONIC_CMPSB:
    case ZYDIS_MNEMONIC_CMPSW:
    case ZYDIS_MNEMONIC_CMPSD:
    case ZYDIS_MNEMONIC_CMPSQ:
      return kHsCmps;
    case ZYDIS_MNEMONIC_SCASB:
    case ZYDIS_MNEMONIC_SCASW:
    case ZYDIS_MNEMONIC_SCASD:
    case ZYDIS_MNEMONIC_SCASQ:
      return kHsScas;
    case ZYDIS_MNEMONIC_MFENCE:
      return kHsMfence;
    case ZYDIS_MNEMONIC_SFENCE:
      return kHsSfence;
    case ZYDIS_MNEMONIC_LFENCE:
      return kHsLfence;
    default:
      return std::nullopt;
  }
}

bool IsString(HsOperationKind kind) { return kind >= kHsMovs && kind <= kHsScas; }

bool IsLocked(const GuestInstruction& instruction) {
  return (instruction.decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 ||
         instruction.decoded.mnemonic == ZYDIS_MNEMONIC_XCHG;
}

// The operand that is not in memory, of those that have two.
void FillSource(const GuestInstruction& instruction, HsOperation* operation) {
  for (int i = 0; i < instruction.decoded.operand_count_visible; ++i) {
    const ZydisDecodedOperand& operand = instruction.operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
      operation->source = HS_SOURCE_IMMEDIATE;
      operation->immediate = operand.imm.value.s;
    } else if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      operation->source = static_cast<uint8_t>(GeneralRegister(operand.reg.value));
      if (operand.reg.value >= ZYDIS_REGISTER_AH && operand.reg.value <= ZYDIS_REGISTER_BH) {
        operation->source |= HS_SOURCE_HIGH;
      }
    }
  }
}

HsRepeat RepeatOf(ZydisInstructionAttributes attributes) {
  if ((attributes & ZYDIS_ATTRIB_HAS_REPNE) != 0) return kHsRepeatNotEqual;
  return (attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE)) != 0 ? kHsRepeat : kHsOnce;
}

int ElementBytes(const GuestInstruction& instruction) {
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) return operand.size / 8;
  }
  return 0;
}

}  // namespace

bool NeedsCorrection(const GuestInstruction& instruction) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FNSTSW:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_LAHF:
    case ZYDIS_MNEMONIC_PUSHF:
    case ZYDIS_MNEMONIC_PUSHFQ:
    case ZYDIS_MNEMONIC_STMXCSR:
    case ZYDIS_MNEMONIC_VSTMXCSR:
      return true;
    default:
      return false;
  }
}

void WriteCorrection(BlockWriter* writer) {
  if (!writer->has_operations()) return;
  HsOperation operation = {};
  operation.kind = kHsCorrection;
  writer->LeaveFor(kHsExitOperation, nullptr, 0, &operation);
}

bool SetsX87Conditions(const GuestInstruction& instruction) {
  const ZydisMnemonic mnemonic = instruction.decoded.mnemonic;
  return mnemonic == ZYDIS_MNEMONIC_FPREM || mnemonic == ZYDIS_MNEMONIC_FPREM1;
}

void WriteCorrectionBefore(const GuestInstruction& instruction, BlockWriter* writer) {
  const bool status = instruction.decoded.mnemonic == ZYDIS_MNEMONIC_FNSTSW;
  if (!writer->has_operations() || !status || !writer->place().x87_conditions_exact) {
    return WriteCorrection(writer);
  }
  // A replay knows of no exception that the processor does not have.
  constexpr int kRcxSlot = 1, kStatusSlot = 2;
  Assembler* const code = writer->code();
  Label none, done;
  code->Operation({.bytes = {0xdd}}, 7, Field(BlockWriter::SaveSlot(kStatusSlot)));  // fnstsw
  code->StoreField(BlockWriter::SaveSlot(kRcxSlot), kRcx);
  code->LoadBytes(1, kRcx, Field(BlockWriter::SaveSlot(kStatusSlot)));
  code->JumpIfRcxZero(&none);
  code->LoadField(kRcx, BlockWriter::SaveSlot(kRcxSlot));
  WriteCorrection(writer);
  code->Jump(&done);
  code->Bind(&none);
  code->LoadField(kRcx, BlockWriter::SaveSlot(kRcxSlot));
  code->Bind(&done);
}

bool IsOperation(const GuestInstruction& instruction, const BlockWriter& writer) {
  if (instruction.decoded.meta.category == ZYDIS_CATEGORY_STRINGOP) {
    return RepeatOf(instruction.decoded.attributes) != kHsOnce;
  }
  return IsLocked(instruction) && writer.has_fences();
}

bool WriteOperation(const GuestInstruction& instruction, BlockWriter* writer) {
  const std::optional<HsOperationKind> kind = KindOf(instruction.decoded.mnemonic);
  if (!kind.has_value() || !writer->has_operations()) return false;
  const ZydisInstructionAttributes attributes = instruction.decoded.attributes;
  HsOperation operation = {};
  operation.kind = static_cast<uint8_t>(*kind);
  operation.bytes = static_cast<uint8_t>(ElementBytes(instruction));
  operation.narrow = instruction.decoded.address_width == 32;
  operation.locked = IsLocked(instruction);
  if (*kind >= kHsMfence) {
    writer->LeaveFor(kHsExitOperation, nullptr, 0, &operation);
    return true;
  }
  if (IsString(*kind)) {
    operation.repeat = static_cast<uint8_t>(RepeatOf(attributes));
    operation.source_has_fs = (attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS) != 0;
    writer->LeaveFor(kHsExitOperation, nullptr, operation.bytes, &operation);
    return true;
  }
  // The sum of address and bit offset is truncated before a segment's base is added.
  const bool segment =
      (attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS)) != 0;
  if (operation.narrow != 0 && segment && IsBitTest(instruction)) return false;
  FillSource(instruction, &operation);
  if (IsLockedHere(instruction, operation, *writer)) {
    return WriteLocked(instruction, operation, writer);
  }
  Temporaries temporaries(instruction, writer);
  Substitution substitution(instruction, writer, &temporaries);
  substitution.LoadRegisters();
  const HostAddress address = substitution.Address(/*flat=*/true);
  // Guest registers are all in place again when the agent looks at them.
  writer->LeaveFor(kHsExitOperation, &address, operation.bytes, &operation);
  temporaries.Forget();
  return !temporaries.failed();
}

}  // namespace hindsight
