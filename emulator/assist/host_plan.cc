#include "emulator/assist/host_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/assist/host_encoding.h"
#include "isa/needed_features.h"

namespace hindsight {
namespace {

constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF
constexpr uint64_t kCarry = 1;
constexpr int kMaxOperandBytes = 64;
// The only general registers that a memory operand without SIB and displacement can name: not rsp,
// not rbp.
constexpr uint8_t kMemoryRegisters[] = {kRdi, kRsi, kRdx, kRcx, kRbx, kRax};

bool IsVex(const ZydisDecodedInstruction& instruction) {
  return instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX ||
         instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
}

int GprNumber(ZydisRegister name) {
  return ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name));
}

bool Writes(const ZydisDecodedOperand& operand) {
  return (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
}

bool Reads(const ZydisDecodedOperand& operand) {
  return (operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
}

// Moves, logic and integer arithmetic neither look at MXCSR nor change it; what is not known to be
// one of them is run with it loaded.
bool UsesMxcsr(ZydisMnemonic mnemonic) {
  static constexpr const char* kWithout[] = {
      "vp",     "p",      "k",     "sha",   "aes",      "vaes",    "gf2p8",      "vgf2p8", "vmov",
      "mov",    "vand",   "vor",   "vxor",  "vextract", "vinsert", "vbroadcast", "vshuf",  "vunp",
      "vblend", "valign", "vtest", "vmask", "vlddqu",   "vpermil", "extrq",      "insertq"};
  const char* const name = ZydisMnemonicGetString(mnemonic);
  return std::none_of(std::begin(kWithout), std::end(kWithout), [name](const char* prefix) {
    return std::strncmp(name, prefix, std::strlen(prefix)) == 0;
  });
}

// Whether elements that are masked off are not accessed.
bool SuppressesFaults(const ZydisDecodedInstruction& instruction) {
  // Zydis has these in another class than processors.
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_VCVTNE2PS2BF16:
    case ZYDIS_MNEMONIC_VDBPSADBW:
    case ZYDIS_MNEMONIC_VGF2P8AFFINEQB:
    case ZYDIS_MNEMONIC_VGF2P8AFFINEINVQB:
      return false;
    default:
      break;
  }
  switch (instruction.meta.exception_class) {
    case ZYDIS_EXCEPTION_CLASS_E1:
    case ZYDIS_EXCEPTION_CLASS_E2:
    case ZYDIS_EXCEPTION_CLASS_E3:
    case ZYDIS_EXCEPTION_CLASS_E4:
    case ZYDIS_EXCEPTION_CLASS_E5:
    case ZYDIS_EXCEPTION_CLASS_E6:
    case ZYDIS_EXCEPTION_CLASS_E10:
    case ZYDIS_EXCEPTION_CLASS_E11:
      return true;
    default:
      return false;
  }
}

// Whether the instruction does nothing but to compute on its operands and the arithmetic flags: the
// others jump, raise signals, or change what is the host's, as `std` does.
bool OnlyComputes(const ZydisDecodedInstruction& instruction) {
  if ((instruction.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) != 0) return false;
  if (instruction.cpu_flags != nullptr) {
    const ZydisAccessedFlags& flags = *instruction.cpu_flags;
    const uint64_t touched =
        flags.tested | flags.modified | flags.set_0 | flags.set_1 | flags.undefined;
    if ((touched & ~kArithmeticFlags) != 0) return false;
  }
  // Of other encodings only known extensions are run at all, all of which compute.
  if (instruction.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) return true;
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_AES:
    case ZYDIS_CATEGORY_BINARY:
    case ZYDIS_CATEGORY_BITBYTE:
    case ZYDIS_CATEGORY_CMOV:
    case ZYDIS_CATEGORY_CONVERT:
    case ZYDIS_CATEGORY_DATAXFER:
    case ZYDIS_CATEGORY_FCMOV:
    case ZYDIS_CATEGORY_FLAGOP:
    case ZYDIS_CATEGORY_GFNI:
    case ZYDIS_CATEGORY_LOGICAL:
    case ZYDIS_CATEGORY_LOGICAL_FP:
    case ZYDIS_CATEGORY_LZCNT:
    case ZYDIS_CATEGORY_MMX:
    case ZYDIS_CATEGORY_PCLMULQDQ:
    case ZYDIS_CATEGORY_SEMAPHORE:
    case ZYDIS_CATEGORY_SETCC:
    case ZYDIS_CATEGORY_SHA:
    case ZYDIS_CATEGORY_SSE:
    case ZYDIS_CATEGORY_X87_ALU:
      return true;
    case ZYDIS_CATEGORY_SHIFT:  // others leave the flags alone if the count is zero
      return instruction.mnemonic == ZYDIS_MNEMONIC_SHLD ||
             instruction.mnemonic == ZYDIS_MNEMONIC_SHRD;
    default:
      return false;
  }
}

// Gathers operands into a plan; false: it holds something the host must not be given.
class PlanMaker {
 public:
  PlanMaker(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands)
      : instruction_(instruction), operands_(operands) {}

  bool Make(HostPlan* plan) {
    plan_ = plan;
    const std::optional<HostFeatures> needs = NeededFeatures(instruction_);
    if (!needs.has_value() || !OnlyComputes(instruction_)) return false;
    plan->needs = *needs;
    plan->uses_x87 = IsX87OrMmx(instruction_);
    NoteFlags();
    for (int i = 0; i < instruction_.operand_count; ++i) {
      if (!NoteOperand(i)) return false;
    }
    if (plan->is_gather || plan->is_scatter) return true;
    plan->clears_upper = IsVex(instruction_) && !plan->vectors.empty();
    // With the operand in memory, the result may be in an opmask or general register.
    plan->uses_mxcsr = (!plan->vectors.empty() || plan->opmasks != 0 ||
                        instruction_.meta.category == ZYDIS_CATEGORY_CONVERT) &&
                       UsesMxcsr(instruction_.mnemonic);
    if (plan->uses_x87) plan->vectors.clear();
    return ChooseRegisters();
  }

 private:
  void NoteFlags() {
    if (instruction_.cpu_flags == nullptr) return;
    const ZydisAccessedFlags& flags = *instruction_.cpu_flags;
    const uint64_t written = flags.modified | flags.set_0 | flags.set_1 | flags.undefined;
    plan_->needs_flags = (flags.tested & kArithmeticFlags) != 0;
    if ((written & kArithmeticFlags) == 0) return;
    if ((written & kArithmeticFlags) != kArithmeticFlags) plan_->needs_flags = true;
    if (instruction_.mnemonic == ZYDIS_MNEMONIC_SHLD ||
        instruction_.mnemonic == ZYDIS_MNEMONIC_SHRD) {
      // By zero they leave the flags alone.
      plan_->needs_flags = true;
      plan_->flags_defined = kArithmeticFlags;
      return;
    }
    if (IsBitTest(instruction_.mnemonic)) {
      // The others stay, on all processors and in Unicorn.
      plan_->flags_defined = kCarry;
      return;
    }
    // All that are not undefined: the tables do not list every flag that becomes 0.
    plan_->flags_undefined = flags.undefined & kArithmeticFlags;
    plan_->flags_defined = kArithmeticFlags & ~plan_->flags_undefined;
  }

  bool NoteOperand(int index) {
    const ZydisDecodedOperand& operand = operands_[index];
    switch (operand.type) {
      case ZYDIS_OPERAND_TYPE_REGISTER:
        return NoteRegister(operand);
      case ZYDIS_OPERAND_TYPE_MEMORY:
        return NoteMemory(index);
      case ZYDIS_OPERAND_TYPE_IMMEDIATE:
        return true;
      default:
        return false;
    }
  }

  bool NoteRegister(const ZydisDecodedOperand& operand) {
    const ZydisRegister name = operand.reg.value;
    switch (ZydisRegisterGetClass(name)) {
      case ZYDIS_REGCLASS_GPR8:
      case ZYDIS_REGCLASS_GPR16:
      case ZYDIS_REGCLASS_GPR32:
      case ZYDIS_REGCLASS_GPR64:
        plan_->gprs |= 1u << GprNumber(name);
        if (Writes(operand)) plan_->gprs_written |= 1u << GprNumber(name);
        return true;
      case ZYDIS_REGCLASS_XMM:
        return NoteVector(operand, 16);
      case ZYDIS_REGCLASS_YMM:
        return NoteVector(operand, 32);
      case ZYDIS_REGCLASS_ZMM:
        return NoteVector(operand, 64);
      case ZYDIS_REGCLASS_MASK:
        plan_->opmasks |= 1u << ZydisRegisterGetId(name);
        if (Writes(operand)) plan_->opmasks_written |= 1u << ZydisRegisterGetId(name);
        return true;
      case ZYDIS_REGCLASS_MMX:
      case ZYDIS_REGCLASS_X87:
        plan_->uses_x87 = true;
        return true;
      case ZYDIS_REGCLASS_FLAGS:
        return true;
      default:
        return name == ZYDIS_REGISTER_X87STATUS || name == ZYDIS_REGISTER_X87CONTROL ||
               name == ZYDIS_REGISTER_X87TAG || name == ZYDIS_REGISTER_MXCSR;
    }
  }

  bool NoteVector(const ZydisDecodedOperand& operand, uint16_t bytes) {
    const auto number = static_cast<uint8_t>(ZydisRegisterGetId(operand.reg.value));
    for (VectorUse& use : plan_->vectors) {
      if (use.number != number) continue;
      use.bytes = std::max(use.bytes, bytes);
      use.written |= Writes(operand);
      return true;
    }
    plan_->vectors.push_back({number, bytes, Writes(operand)});
    return true;
  }

  bool NoteMemory(int index) {
    const ZydisDecodedOperand& operand = operands_[index];
    if (operand.mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
      if (instruction_.meta.category == ZYDIS_CATEGORY_SCATTER) {
        plan_->is_scatter = true;
      } else if (instruction_.meta.category == ZYDIS_CATEGORY_GATHER ||
                 instruction_.meta.category == ZYDIS_CATEGORY_AVX2GATHER) {
        plan_->is_gather = true;
      } else {
        return false;
      }
      plan_->memory_operand = index;
      plan_->address = OperandAddress(instruction_, operand);
      return true;
    }
    const int bytes = operand.size / 8;
    if (operand.mem.type != ZYDIS_MEMOP_TYPE_MEM || plan_->memory_operand >= 0 || bytes == 0 ||
        bytes > kMaxOperandBytes) {
      return false;
    }
    // The bit may be far from the address.
    if (IsBitTest(instruction_.mnemonic) && operands_[1].type == ZYDIS_OPERAND_TYPE_REGISTER) {
      return false;
    }
    plan_->memory_operand = index;
    plan_->address = OperandAddress(instruction_, operand);
    plan_->memory_bytes = static_cast<uint8_t>(bytes);
    plan_->reads_memory = Reads(operand);
    plan_->writes_memory = Writes(operand);
    FindExtent(operand);
    return true;
  }

  void FindExtent(const ZydisDecodedOperand& memory) {
    plan_->extent = MemoryExtent::kWhole;
    if (FindVectorMask()) return;
    if (instruction_.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX ||
        instruction_.avx.mask.mode == ZYDIS_MASK_MODE_DISABLED ||
        instruction_.avx.mask.reg == ZYDIS_REGISTER_NONE ||
        instruction_.avx.mask.reg == ZYDIS_REGISTER_K0 || !SuppressesFaults(instruction_)) {
      return;
    }
    plan_->mask_register = static_cast<uint8_t>(ZydisRegisterGetId(instruction_.avx.mask.reg));
    const ZydisInstructionCategory category = instruction_.meta.category;
    if (category == ZYDIS_CATEGORY_COMPRESS || category == ZYDIS_CATEGORY_EXPAND) {
      plan_->extent = MemoryExtent::kPacked;
      plan_->element_bytes = static_cast<uint8_t>(memory.element_size / 8);
    } else if (instruction_.avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID) {
      plan_->extent = MemoryExtent::kFoldedOpmask;
      plan_->element_bytes = static_cast<uint8_t>(plan_->memory_bytes / memory.element_count);
    } else if (memory.element_count == 1) {
      plan_->extent = MemoryExtent::kLowOpmask;
    } else {
      plan_->extent = MemoryExtent::kOpmask;
      plan_->element_bytes = static_cast<uint8_t>(plan_->memory_bytes / MaskedElements(memory));
    }
  }

  // How many elements the opmask is for: those of the destination, or, if that is an opmask
  // register itself, of the source.
  int MaskedElements(const ZydisDecodedOperand& memory) const {
    const ZydisDecodedOperand& destination = operands_[0];
    const bool vector = destination.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                        ZydisRegisterGetClass(destination.reg.value) != ZYDIS_REGCLASS_MASK;
    int elements = vector ? destination.element_count : memory.element_count;
    // One that narrows does not fill its destination.
    if (instruction_.meta.category == ZYDIS_CATEGORY_CONVERT) {
      elements = std::min<int>(elements, memory.element_count);
    }
    return std::max(1, std::min<int>(elements, plan_->memory_bytes));
  }

  // Not maskmovq and vmaskmovdqu: processors may access all.
  bool FindVectorMask() {
    switch (instruction_.mnemonic) {
      case ZYDIS_MNEMONIC_VMASKMOVPS:
      case ZYDIS_MNEMONIC_VPMASKMOVD:
        plan_->element_bytes = 4;
        break;
      case ZYDIS_MNEMONIC_VMASKMOVPD:
      case ZYDIS_MNEMONIC_VPMASKMOVQ:
        plan_->element_bytes = 8;
        break;
      default:
        return false;
    }
    plan_->extent = MemoryExtent::kVectorMask;
    plan_->mask_register = static_cast<uint8_t>(ZydisRegisterGetId(operands_[1].reg.value));
    return true;
  }

  bool ChooseRegisters() {
    const bool implicit = plan_->memory_operand >= 0 &&
                          operands_[plan_->memory_operand].encoding == ZYDIS_OPERAND_ENCODING_NONE;
    uint32_t taken = plan_->gprs;
    if (implicit) {
      // maskmovq and its like name their memory by rdi.
      if (operands_[plan_->memory_operand].mem.base == ZYDIS_REGISTER_NONE) return false;
      if (GprNumber(operands_[plan_->memory_operand].mem.base) != kRdi) return false;
      if ((taken >> kRdi & 1) != 0) return false;
      plan_->memory_register = kRdi;
      taken |= 1u << kRdi;
    } else {
      for (uint8_t candidate : kMemoryRegisters) {
        if ((taken >> candidate & 1) != 0) continue;
        plan_->memory_register = candidate;
        taken |= 1u << candidate;
        break;
      }
    }
    if ((plan_->gprs >> kRsp & 1) == 0) return true;
    for (int i = 0; i < instruction_.operand_count; ++i) {
      // Named by no field.
      if (IsRsp(operands_[i]) && operands_[i].encoding == ZYDIS_OPERAND_ENCODING_NONE) return false;
    }
    for (uint8_t candidate : kMemoryRegisters) {
      if ((taken >> candidate & 1) != 0) continue;
      plan_->rsp_stand_in = candidate;
      return true;
    }
    return false;
  }

 public:
  static bool IsRsp(const ZydisDecodedOperand& operand) {
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) return false;
    const ZydisRegisterClass kind = ZydisRegisterGetClass(operand.reg.value);
    const bool general = kind == ZYDIS_REGCLASS_GPR8 || kind == ZYDIS_REGCLASS_GPR16 ||
                         kind == ZYDIS_REGCLASS_GPR32 || kind == ZYDIS_REGCLASS_GPR64;
    return general && GprNumber(operand.reg.value) == kRsp;
  }

 private:
  const ZydisDecodedInstruction& instruction_;
  const ZydisDecodedOperand* operands_;
  HostPlan* plan_ = nullptr;
};

}  // namespace

bool IsBitTest(ZydisMnemonic mnemonic) {
  return mnemonic == ZYDIS_MNEMONIC_BT || mnemonic == ZYDIS_MNEMONIC_BTC ||
         mnemonic == ZYDIS_MNEMONIC_BTR || mnemonic == ZYDIS_MNEMONIC_BTS;
}

bool IsX87OrMmx(const ZydisDecodedInstruction& instruction) {
  const bool escape = instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
                      instruction.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
                      instruction.opcode >= 0xd8 && instruction.opcode <= 0xdf;
  return escape || instruction.mnemonic == ZYDIS_MNEMONIC_EMMS ||
         instruction.mnemonic == ZYDIS_MNEMONIC_FWAIT ||
         instruction.mnemonic == ZYDIS_MNEMONIC_CVTPI2PD ||
         instruction.mnemonic == ZYDIS_MNEMONIC_CVTPI2PS;
}

std::optional<HostPlan> MakeHostPlan(const ZydisDecodedInstruction& instruction,
                                     const ZydisDecodedOperand* operands) {
  HostPlan plan;
  plan.instruction = instruction;
  std::copy_n(operands, ZYDIS_MAX_OPERAND_COUNT, plan.operands);
  if (!PlanMaker(instruction, operands).Make(&plan)) return std::nullopt;
  if (plan.is_gather || plan.is_scatter) return plan;
  std::optional<std::vector<uint8_t>> code = EncodeForHost(plan);
  if (!code.has_value()) return std::nullopt;
  plan.code = *std::move(code);
  return plan;
}

bool HasHostAssist(const ZydisDecodedInstruction& instruction,
                   const ZydisDecodedOperand* operands) {
  HostPlan plan;
  return PlanMaker(instruction, operands).Make(&plan);
}

}  // namespace hindsight
