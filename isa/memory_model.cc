#include "isa/memory_model.h"

#include <Zydis/Zydis.h>

namespace hindsight {
namespace {

bool IsFence(const Instruction& instruction) {
  return instruction.locked || instruction.mnemonic == ZYDIS_MNEMONIC_MFENCE ||
         instruction.mnemonic == ZYDIS_MNEMONIC_SFENCE ||
         instruction.mnemonic == ZYDIS_MNEMONIC_LFENCE;
}

// Names memory without reading or writing it.
bool IsHint(const Instruction& instruction) {
  switch (instruction.mnemonic) {
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

bool IsOrderable(const Instruction& instruction, MemoryModel model) {
  if (instruction.policy == Policy::kSyscall || instruction.policy == Policy::kInvalid ||
      IsHint(instruction)) {
    return false;
  }
  switch (model) {
    case MemoryModel::kKernel:
      return false;
    case MemoryModel::kFence:
      return IsFence(instruction);
    case MemoryModel::kAcqRel:
      return instruction.writes_memory || IsFence(instruction);
    case MemoryModel::kLoad:
      return instruction.reads_memory || instruction.writes_memory || IsFence(instruction);
  }
  return false;
}

}  // namespace hindsight
