#include "translator/guest/guest_instruction.h"

#include <array>
#include <cstring>

#include "isa/decoder.h"
#include "isa/registers.h"
#include "translator/guest/decode_memo.h"

namespace hindsight {
namespace {

bool IsRefusedCategory(ZydisInstructionCategory category) {
  switch (category) {
    case ZYDIS_CATEGORY_AMX_TILE:
    case ZYDIS_CATEGORY_CET:
    case ZYDIS_CATEGORY_ENQCMD:
    case ZYDIS_CATEGORY_HRESET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_KEYLOCKER:
    case ZYDIS_CATEGORY_KEYLOCKER_WIDE:
    case ZYDIS_CATEGORY_KNC:
    case ZYDIS_CATEGORY_KNCMASK:
    case ZYDIS_CATEGORY_KNCSCALAR:
    case ZYDIS_CATEGORY_MOVDIR:
    case ZYDIS_CATEGORY_MPX:
    case ZYDIS_CATEGORY_PADLOCK:
    case ZYDIS_CATEGORY_PCONFIG:
    case ZYDIS_CATEGORY_PKU:
    case ZYDIS_CATEGORY_PT:
    case ZYDIS_CATEGORY_RDPID:
    case ZYDIS_CATEGORY_RDPRU:
    case ZYDIS_CATEGORY_RDRAND:
    case ZYDIS_CATEGORY_RDSEED:
    case ZYDIS_CATEGORY_RDWRFSGS:
    case ZYDIS_CATEGORY_SEGOP:
    case ZYDIS_CATEGORY_SGX:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_TSX_LDTRK:
    case ZYDIS_CATEGORY_UINTR:
    case ZYDIS_CATEGORY_VTX:
    case ZYDIS_CATEGORY_WAITPKG:
      return true;
    default:
      return false;
  }
}

bool IsRefusedMnemonic(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_RDPMC:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_XGETBV:
    case ZYDIS_MNEMONIC_XSETBV:
    case ZYDIS_MNEMONIC_CLZERO:  // obeys segment prefixes that the decoder does not show
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XABORT:
    case ZYDIS_MNEMONIC_XTEST:
    case ZYDIS_MNEMONIC_MONITORX:
    case ZYDIS_MNEMONIC_MWAITX:
    case ZYDIS_MNEMONIC_SALC:
      return true;
    default:
      return false;
  }
}

// Loads of segment registers; reading one is harmless.
bool LoadsSegment(const GuestInstruction& instruction) {
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ZydisRegisterGetClass(operand.reg.value) == ZYDIS_REGCLASS_SEGMENT &&
        (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0) {
      return true;
    }
  }
  return false;
}

// endbr64 and the like decode as CET.
bool IsHint(ZydisMnemonic mnemonic) {
  return mnemonic == ZYDIS_MNEMONIC_ENDBR64 || mnemonic == ZYDIS_MNEMONIC_ENDBR32 ||
         mnemonic == ZYDIS_MNEMONIC_NOP;
}

// The address with the bit's offset is truncated, before GS is added: not done here, nor where the
// address is a constant, which stands for itself (AddressOf).
bool TruncatesBitAddress(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  if (decoded.address_width != 32 || !IsBitTest(instruction)) return false;
  const ZydisDecodedOperand* memory = EncodedMemory(instruction);
  return (decoded.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS) != 0 ||
         (memory != nullptr && AddressOf(instruction, *memory).from_rip);
}

bool IsRefused(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  if (IsHint(decoded.mnemonic)) return false;
  // A string instruction whose source has an explicit GS.
  const bool hidden_gs = (decoded.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS) != 0 &&
                         EncodedMemory(instruction) == nullptr;
  const bool vector_gs = (decoded.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS) != 0 &&
                         decoded.raw.sib.offset != 0 && EncodedMemory(instruction) != nullptr &&
                         EncodedMemory(instruction)->mem.type == ZYDIS_MEMOP_TYPE_VSIB;
  return (decoded.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) != 0 ||
         decoded.meta.isa_set == ZYDIS_ISA_SET_LWP || TruncatesBitAddress(instruction) ||
         IsRefusedCategory(decoded.meta.category) || IsRefusedMnemonic(decoded.mnemonic) ||
         LoadsSegment(instruction) || hidden_gs || vector_gs;
}

Control BranchOf(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  // Operand size 16 truncates rip on some processors and does nothing on others.
  if (decoded.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || decoded.operand_width == 16) {
    return Control::kRefused;
  }
  const bool direct = decoded.raw.imm[0].is_relative;
  switch (decoded.mnemonic) {
    case ZYDIS_MNEMONIC_RET:
      return Control::kReturn;
    case ZYDIS_MNEMONIC_CALL:
      return direct ? Control::kCall : Control::kIndirectCall;
    case ZYDIS_MNEMONIC_JMP:
      return direct ? Control::kJump : Control::kIndirectJump;
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
      return Control::kLoop;
    default:
      return decoded.meta.category == ZYDIS_CATEGORY_COND_BR ? Control::kConditional
                                                             : Control::kRefused;
  }
}

}  // namespace

bool DecodeGuest(uint64_t pc, absl::Span<const uint8_t> code, GuestInstruction* out) {
  thread_local DecodeMemo memo;
  if (const GuestInstruction* known = memo.Find(code)) {
    *out = *known;
  } else {
    if (!Decode(code, &out->decoded, out->operands)) return false;
    std::memcpy(out->bytes, code.data(), out->decoded.length);
    memo.Add(code, *out);
  }
  out->pc = pc;
  return true;
}

Control ControlOf(const GuestInstruction& instruction) {
  if (instruction.decoded.mnemonic == ZYDIS_MNEMONIC_SYSCALL) return Control::kSyscall;
  if (IsRefused(instruction)) return Control::kRefused;
  switch (instruction.decoded.meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_UNCOND_BR:
      return BranchOf(instruction);
    case ZYDIS_CATEGORY_SYSCALL:
      return Control::kRefused;
    default:
      return Control::kNone;
  }
}

uint64_t BranchTarget(const GuestInstruction& instruction) {
  return instruction.next() + static_cast<uint64_t>(instruction.decoded.raw.imm[0].value.s);
}

int GeneralRegister(ZydisRegister reg) {
  // The library searches for the whole register.
  static const auto* const numbers = [] {
    auto* made = new std::array<int8_t, ZYDIS_REGISTER_MAX_VALUE + 1>;
    for (int i = 0; i <= ZYDIS_REGISTER_MAX_VALUE; ++i) {
      const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
                                                                   static_cast<ZydisRegister>(i));
      const bool is_general = ZydisRegisterGetClass(whole) == ZYDIS_REGCLASS_GPR64;
      (*made)[static_cast<size_t>(i)] =
          static_cast<int8_t>(is_general ? ZydisRegisterGetId(whole) : -1);
    }
    return made;
  }();
  return (*numbers)[reg];
}

uint16_t UsedRegisters(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  // With REX.B processors exchange these two, which Zydis overlooks.
  const bool exchanges = decoded.mnemonic == ZYDIS_MNEMONIC_PAUSE && decoded.raw.rex.B != 0;
  unsigned used = exchanges ? 1u << kRax | 1u << kR8 : 0;
  auto add = [&](ZydisRegister reg) {
    const int number = GeneralRegister(reg);
    if (number >= 0) used |= 1u << number;
  };
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) add(operand.reg.value);
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      add(operand.mem.base);
      add(operand.mem.index);
    }
  }
  return static_cast<uint16_t>(used);
}

bool UsesHighByte(const GuestInstruction& instruction) {
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.reg.value >= ZYDIS_REGISTER_AH &&
        operand.reg.value <= ZYDIS_REGISTER_BH) {
      return true;
    }
  }
  return false;
}

bool IsBitTest(const GuestInstruction& instruction) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_BT:
    case ZYDIS_MNEMONIC_BTC:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTS:
      return instruction.operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
    default:
      return false;
  }
}

const ZydisDecodedOperand* EncodedMemory(const GuestInstruction& instruction) {
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    if (operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN) continue;
    const bool by_modrm = operand.encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM;
    const bool absolute = operand.encoding >= ZYDIS_OPERAND_ENCODING_DISP8 &&
                          operand.encoding <= ZYDIS_OPERAND_ENCODING_DISP16_32_32;
    if (by_modrm || absolute) return &operand;
  }
  return nullptr;
}

HostAddress AddressOf(const GuestInstruction& instruction, const ZydisDecodedOperand& operand) {
  const ZydisDecodedOperandMem& mem = operand.mem;
  HostAddress address;
  address.narrow = instruction.decoded.address_width == 32;
  address.displacement = mem.disp.has_displacement ? mem.disp.value : 0;
  if (mem.type != ZYDIS_MEMOP_TYPE_AGEN) {
    if (mem.segment == ZYDIS_REGISTER_FS) address.segment = SegmentBase::kFs;
    if (mem.segment == ZYDIS_REGISTER_GS) address.segment = SegmentBase::kGs;
  }
  if (mem.base == ZYDIS_REGISTER_RIP || mem.base == ZYDIS_REGISTER_EIP) {
    auto target = instruction.next() + static_cast<uint64_t>(address.displacement);
    if (address.narrow) target = static_cast<uint32_t>(target);
    address.narrow = false;
    address.displacement = static_cast<int64_t>(target);
    address.from_rip = true;
    return address;
  }
  address.base = GeneralRegister(mem.base);
  if (mem.index != ZYDIS_REGISTER_NONE) {
    address.vector_index = mem.type == ZYDIS_MEMOP_TYPE_VSIB;
    address.index =
        address.vector_index ? ZydisRegisterGetId(mem.index) : GeneralRegister(mem.index);
    address.scale = mem.scale == 0 ? 1 : mem.scale;
  }
  if (operand.encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM && address.base < 0) {
    if (address.narrow) address.displacement = static_cast<uint32_t>(address.displacement);
    address.narrow = false;
    address.from_rip = true;
  }
  return address;
}

}  // namespace hindsight
