#include "isa/memory_model.h"

namespace hindsight {
namespace {

// Names memory without reading or writing it.
bool IsHint(uint16_t mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_PREFETCH:
    case ZYDIS_MNEMONIC_PREFETCHNTA:
    case ZYDIS_MNEMONIC_PREFETCHT0:
    case ZYDIS_MNEMONIC_PREFETCHT1:
    case ZYDIS_MNEMONIC_PREFETCHT2:
    case ZYDIS_MNEMONIC_PREFETCHW:
    case ZYDIS_MNEMONIC_PREFETCHWT1:
      return true;
    default:
      return false;
  }
}

}  // namespace

const char* MemoryModelName(MemoryModel model) {
  switch (model) {
    case MemoryModel::kKernel:
      return "kernel";
    case MemoryModel::kFence:
      return "fence";
    case MemoryModel::kAcqRel:
      return "acqrel";
    case MemoryModel::kLoad:
      return "load";
  }
  return "?";
}

std::optional<MemoryModel> ParseMemoryModel(absl::string_view name) {
  for (const MemoryModel model :
       {MemoryModel::kKernel, MemoryModel::kFence, MemoryModel::kAcqRel, MemoryModel::kLoad}) {
    if (name == MemoryModelName(model)) return model;
  }
  return std::nullopt;
}

MemoryUse MemoryUseOf(const ZydisDecodedInstruction& decoded, const ZydisDecodedOperand* operands) {
  MemoryUse use = {.mnemonic = static_cast<uint16_t>(decoded.mnemonic),
                   .locked = (decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0};
  for (int i = 0; i < decoded.operand_count; ++i) {
    if (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    if (operands[i].mem.type == ZYDIS_MEMOP_TYPE_AGEN) continue;  // lea computes only
    use.reads |= (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
    use.writes |= (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    use.locked |= decoded.mnemonic == ZYDIS_MNEMONIC_XCHG;
  }
  return use;
}

bool IsFence(const MemoryUse& use) {
  return use.locked || use.mnemonic == ZYDIS_MNEMONIC_MFENCE ||
         use.mnemonic == ZYDIS_MNEMONIC_SFENCE || use.mnemonic == ZYDIS_MNEMONIC_LFENCE;
}

bool IsOrderable(const MemoryUse& use, MemoryModel model) {
  if (IsHint(use.mnemonic)) return false;
  switch (model) {
    case MemoryModel::kKernel:
      return false;
    case MemoryModel::kFence:
      return IsFence(use);
    case MemoryModel::kAcqRel:
      return use.writes || IsFence(use);
    case MemoryModel::kLoad:
      return use.reads || use.writes || IsFence(use);
  }
  return false;
}

}  // namespace hindsight
