#include "recorder/emulate/thread/instruction_outputs.h"

#include <Zydis/Zydis.h>

#include <algorithm>

#include "isa/operand_address.h"

namespace hindsight {
namespace {

// XSAVE and the like: as much as the processor has. Their operand has no size.
constexpr uint64_t kSavedState = 12 << 10;
// More than any other operand.
constexpr uint64_t kVector = 64;
// Smallest size assumed of an operand.
constexpr uint64_t kSmallest = 8;

bool SavesState(const ZydisDecodedInstruction& instruction) {
  return instruction.meta.category == ZYDIS_CATEGORY_XSAVE ||
         instruction.meta.category == ZYDIS_CATEGORY_XSAVEOPT;
}

bool HasVectorIndex(const ZydisDecodedOperand& operand) {
  return operand.mem.type == ZYDIS_MEMOP_TYPE_VSIB;
}

}  // namespace

SyscallOutputs OutputsOfInstruction(absl::Span<const uint8_t> code, const RegisterFile& before) {
  SyscallOutputs out;
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  if (!ZYAN_SUCCESS(
          ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &instruction, operands)) ||
      instruction.meta.category == ZYDIS_CATEGORY_INTERRUPT ||
      instruction.meta.category == ZYDIS_CATEGORY_SYSCALL) {
    out.known = false;
    return out;
  }
  for (int i = 0; i < instruction.operand_count; ++i) {
    const ZydisDecodedOperand& operand = operands[i];
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY ||
        (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) {
      continue;
    }
    if (HasVectorIndex(operand)) {
      out.known = false;
      return out;
    }
    const uint64_t size = SavesState(instruction)
                              ? kSavedState
                              : std::clamp<uint64_t>(operand.size / 8, kSmallest, kVector);
    // What goes onto the stack lies below the pointer before: its base register is rsp as it is
    // then. A step of a string instruction moves one element, up or down.
    const uint64_t address = OperandAddress(instruction, operand).Compute(before);
    const bool pushes = operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
                        operand.mem.base == ZYDIS_REGISTER_RSP;
    const uint64_t below = pushes ? kVector : 0;
    out.written.push_back({address - below, size + below});
  }
  return out;
}

}  // namespace hindsight
