#include "translator/record_class.h"

namespace hindsight {
namespace {

bool HasMask(const ZydisDecodedInstruction& decoded) {
  return decoded.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX &&
         decoded.avx.mask.reg != ZYDIS_REGISTER_K0 && decoded.avx.mask.reg != ZYDIS_REGISTER_NONE;
}

// Elements that are masked out are not accessed: they may lie in memory that is not there.
bool LoadsByMask(const GuestInstruction& instruction) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
      return true;
    default:
      return HasMask(instruction.decoded);
  }
}

RecordClass MaskedLoadClass(const GuestInstruction& instruction) {
  const ZydisRegister result = instruction.operands[0].reg.value;
  if (instruction.decoded.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX) {
    return result == instruction.operands[1].reg.value ? RecordClass::kRefused
                                                       : RecordClass::kLoadMasked;
  }
  if (ZydisRegisterGetClass(result) == ZYDIS_REGCLASS_MASK) {
    return result == instruction.decoded.avx.mask.reg ? RecordClass::kRefused
                                                      : RecordClass::kTestMasked;
  }
  return MaskedElementBytes(instruction.decoded.mnemonic) != 0 ? RecordClass::kLoadMasked
                                                               : RecordClass::kRefused;
}

bool TouchesNoBytes(const GuestInstruction& instruction, const ZydisDecodedOperand& memory) {
  switch (instruction.decoded.meta.category) {
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
    case ZYDIS_CATEGORY_PREFETCHWT1:
    case ZYDIS_CATEGORY_CLDEMOTE:
    case ZYDIS_CATEGORY_CLFLUSHOPT:
    case ZYDIS_CATEGORY_CLWB:
      return true;
    default:
      return memory.mem.type == ZYDIS_MEMOP_TYPE_AGEN ||
             instruction.decoded.mnemonic == ZYDIS_MNEMONIC_CLFLUSH;
  }
}

// Instructions that are what they are whatever their operands.
RecordClass ByMnemonic(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
      return RecordClass::kPush;
    case ZYDIS_MNEMONIC_POP:
      return RecordClass::kPop;
    case ZYDIS_MNEMONIC_PUSHF:
    case ZYDIS_MNEMONIC_PUSHFQ:
      return RecordClass::kPushFlags;
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFQ:
      return RecordClass::kPopFlags;
    case ZYDIS_MNEMONIC_ENTER:
      return RecordClass::kEnter;
    case ZYDIS_MNEMONIC_LEAVE:
      return RecordClass::kLeave;
    case ZYDIS_MNEMONIC_XLAT:
      return RecordClass::kTranslateByte;
    case ZYDIS_MNEMONIC_MFENCE:
    case ZYDIS_MNEMONIC_SFENCE:
    case ZYDIS_MNEMONIC_LFENCE:
      return RecordClass::kFence;
    case ZYDIS_MNEMONIC_MASKMOVQ:
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
      return RecordClass::kStore;
    default:
      return RecordClass::kNoMemory;
  }
}

RecordClass LoadClass(const GuestInstruction& instruction, const ZydisDecodedOperand& memory) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  const bool wide_result = instruction.operands[0].size >= 32;
  switch (decoded.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
      return wide_result ? RecordClass::kLoadMove : RecordClass::kLoadGeneral;
    case ZYDIS_MNEMONIC_MOVZX:
      return wide_result ? RecordClass::kLoadMove : RecordClass::kLoadGeneral;
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_ADC:
    case ZYDIS_MNEMONIC_SBB:
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_IMUL:
      return RecordClass::kLoadGeneral;
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_MOVD:
      return ZydisRegisterGetClass(instruction.operands[0].reg.value) == ZYDIS_REGCLASS_XMM
                 ? RecordClass::kLoadVector
                 : RecordClass::kLoad;
    case ZYDIS_MNEMONIC_VMOVSD:
    case ZYDIS_MNEMONIC_VMOVSS:
    case ZYDIS_MNEMONIC_VMOVQ:
    case ZYDIS_MNEMONIC_VMOVD:
      return decoded.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX ? RecordClass::kLoadVector
                                                                : RecordClass::kLoad;
    default:
      return decoded.meta.category == ZYDIS_CATEGORY_CMOV ? RecordClass::kLoadGeneral
                                                          : RecordClass::kLoad;
  }
}

RecordClass StoreClass(const GuestInstruction& instruction, const ZydisDecodedOperand& memory) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_FSTP:
      return memory.size == 80 ? RecordClass::kStoreOnce : RecordClass::kStorePop;
    case ZYDIS_MNEMONIC_FISTP:
      return memory.size == 64 ? RecordClass::kStoreOnce : RecordClass::kStorePop;
    case ZYDIS_MNEMONIC_FBSTP:
    case ZYDIS_MNEMONIC_FISTTP:
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
      return RecordClass::kStoreOnce;
    default:
      return RecordClass::kStore;
  }
}

RecordClass UpdateClass(const GuestInstruction& instruction) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_ADC:
    case ZYDIS_MNEMONIC_SBB:
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_INC:
    case ZYDIS_MNEMONIC_DEC:
    case ZYDIS_MNEMONIC_NOT:
    case ZYDIS_MNEMONIC_NEG:
    case ZYDIS_MNEMONIC_SHL:
    case ZYDIS_MNEMONIC_SHR:
    case ZYDIS_MNEMONIC_SAR:
    case ZYDIS_MNEMONIC_ROL:
    case ZYDIS_MNEMONIC_ROR:
    case ZYDIS_MNEMONIC_RCL:
    case ZYDIS_MNEMONIC_RCR:
    case ZYDIS_MNEMONIC_SHLD:
    case ZYDIS_MNEMONIC_SHRD:
    case ZYDIS_MNEMONIC_BTS:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTC:
      return RecordClass::kUpdate;
    case ZYDIS_MNEMONIC_XADD:
    case ZYDIS_MNEMONIC_XCHG:
    case ZYDIS_MNEMONIC_CMPXCHG:
    case ZYDIS_MNEMONIC_CMPXCHG8B:
    case ZYDIS_MNEMONIC_CMPXCHG16B:
      return RecordClass::kOperation;
    default:
      return RecordClass::kRefused;
  }
}

bool HasHiddenMemory(const GuestInstruction& instruction) {
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) return true;
  }
  return false;
}

}  // namespace

int MaskedElementBytes(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VMOVDQU8:
      return 1;
    case ZYDIS_MNEMONIC_VMOVDQU16:
      return 2;
    case ZYDIS_MNEMONIC_VMOVDQU32:
    case ZYDIS_MNEMONIC_VMOVDQA32:
    case ZYDIS_MNEMONIC_VMOVUPS:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
      return 4;
    case ZYDIS_MNEMONIC_VMOVDQU64:
    case ZYDIS_MNEMONIC_VMOVDQA64:
    case ZYDIS_MNEMONIC_VMOVUPD:
    case ZYDIS_MNEMONIC_VMOVAPD:
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
      return 8;
    default:
      return 0;
  }
}

RecordClass RecordClassOf(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  if (const RecordClass fixed = ByMnemonic(decoded.mnemonic); fixed != RecordClass::kNoMemory) {
    return fixed;
  }
  if (decoded.meta.category == ZYDIS_CATEGORY_STRINGOP) return RecordClass::kOperation;
  const ZydisDecodedOperand* memory = EncodedMemory(instruction);
  if (memory == nullptr) {
    return HasHiddenMemory(instruction) ? RecordClass::kRefused : RecordClass::kNoMemory;
  }
  if (TouchesNoBytes(instruction, *memory)) return RecordClass::kNoMemory;
  // The size is the processor's.
  if (decoded.meta.category == ZYDIS_CATEGORY_XSAVE ||
      decoded.meta.category == ZYDIS_CATEGORY_XSAVEOPT || memory->size == 0 ||
      memory->mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
    return RecordClass::kRefused;
  }
  const bool reads = (memory->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
  const bool writes = (memory->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  if ((decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 || IsBitTest(instruction)) {
    return RecordClass::kOperation;
  }
  if (reads && writes) return UpdateClass(instruction);
  if (writes) return StoreClass(instruction, *memory);
  if (!reads) return RecordClass::kRefused;
  if (LoadsByMask(instruction)) return MaskedLoadClass(instruction);
  return LoadClass(instruction, *memory);
}

}  // namespace hindsight
