#include "emulator/code/instruction.h"

#include <Zydis/Zydis.h>

#include "emulator/assist/bridge_instruction.h"
#include "emulator/assist/host_plan.h"
#include "emulator/assist/string_operation.h"
#include "emulator/code/instruction_policy.h"
#include "isa/alignment.h"
#include "isa/decoder.h"
#include "isa/float_control.h"

namespace hindsight {
namespace {

// The prefix without a string instruction after it means nothing, or another instruction.
bool IsRepeated(const ZydisDecodedInstruction& decoded) {
  constexpr ZydisInstructionAttributes kRepeats =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  return (decoded.attributes & kRepeats) != 0 &&
         (decoded.meta.category == ZYDIS_CATEGORY_STRINGOP ||
          decoded.meta.category == ZYDIS_CATEGORY_IOSTRINGOP);
}

bool SetsFlags(const ZydisDecodedInstruction& decoded) {
  constexpr uint32_t kArithmetic = 0x8d5;  // CF PF AF ZF SF OF
  if (decoded.cpu_flags == nullptr) return false;
  const ZydisAccessedFlags& flags = *decoded.cpu_flags;
  return ((flags.modified | flags.set_0 | flags.set_1 | flags.undefined) & kArithmetic) != 0;
}

// Found by //emulator/checks:stress_test. After another that sets flags, Unicorn's generated code
// gives bt the flags of a shift, and the helper of cmpxchg16b takes those it finds half computed.
bool WantsSettledFlags(ZydisMnemonic mnemonic) {
  return IsBitTest(mnemonic) || mnemonic == ZYDIS_MNEMONIC_CMPXCHG8B ||
         mnemonic == ZYDIS_MNEMONIC_CMPXCHG16B;
}

// All that work on vector registers or the x87, also those that only move or shuffle: where some go
// to the host, it is quicker to have them all there.
bool IsFloating(const ZydisDecodedInstruction& decoded, const ZydisDecodedOperand* operands) {
  if (IsX87OrMmx(decoded)) return true;
  for (int i = 0; i < decoded.operand_count; ++i) {
    if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ZydisRegisterGetClass(operands[i].reg.value) == ZYDIS_REGCLASS_XMM) {
      return true;
    }
  }
  return false;
}

bool IsControlFlow(ZydisInstructionCategory category) {
  switch (category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
      return true;
    default:
      return false;
  }
}

}  // namespace

Instruction Classify(absl::Span<const uint8_t> bytes) {
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  Instruction out;
  if (!Decode(bytes, &decoded, operands)) return out;
  const ZydisInstructionCategory category = decoded.meta.category;
  out.length = decoded.length;
  out.policy = DecidePolicy(decoded, operands);
  out.bridge =
      out.policy == Policy::kEmulate && BridgeKindOf(decoded, operands) != BridgeKind::kNone;
  const MemoryUse memory = MemoryUseOf(decoded, operands);
  out.reads_memory = memory.reads;
  out.writes_memory = memory.writes;
  out.control_flow = IsControlFlow(category);
  out.call = category == ZYDIS_CATEGORY_CALL;
  out.ret = category == ZYDIS_CATEGORY_RET;
  out.rep = IsRepeated(decoded);
  out.rep_at_once = out.policy == Policy::kEmulate && IsStringOperation(decoded);
  out.locked = memory.locked;
  out.sets_flags = SetsFlags(decoded);
  out.wants_settled_flags = WantsSettledFlags(decoded.mnemonic);
  out.floating = out.policy == Policy::kEmulate && IsFloating(decoded, operands) &&
                 HasHostAssist(decoded, operands);
  out.sets_float_control = SetsFloatControl(decoded.mnemonic);
  out.pushes_flags =
      decoded.mnemonic == ZYDIS_MNEMONIC_PUSHF || decoded.mnemonic == ZYDIS_MNEMONIC_PUSHFQ;
  out.aligned = AlignedOperand(decoded, operands) != nullptr;
  if (out.policy == Policy::kEmulate) out.kept_gpr = KeptGpr(decoded, operands);
  // A replay does not look at alignment, the host does.
  out.bridge &= !out.aligned;
  out.mnemonic = static_cast<uint16_t>(decoded.mnemonic);
  return out;
}

bool IsOrderable(const Instruction& instruction, MemoryModel model) {
  if (instruction.policy == Policy::kSyscall || instruction.policy == Policy::kInvalid)
    return false;
  return IsOrderable(MemoryUse{.mnemonic = instruction.mnemonic,
                               .reads = instruction.reads_memory,
                               .writes = instruction.writes_memory,
                               .locked = instruction.locked},
                     model);
}

const char* MnemonicName(uint16_t mnemonic) {
  const char* name = ZydisMnemonicGetString(static_cast<ZydisMnemonic>(mnemonic));
  return name != nullptr ? name : "?";
}

}  // namespace hindsight
