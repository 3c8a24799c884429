#include "isa/decoder.h"

#include <algorithm>

namespace hindsight {
namespace {

// Zydis 4.0.0 takes "no base" (ModRM.mod 0, SIB.base 5) for r13d if the address has 32 bits and
// REX.B is set.
void CorrectBase(const ZydisDecodedInstruction& instruction, ZydisDecodedOperand* operands) {
  const ZydisDecodedInstructionRaw& raw = instruction.raw;
  if (raw.sib.offset == 0 || raw.modrm.mod != 0 || raw.sib.base != 5) return;
  for (int i = 0; i < instruction.operand_count; ++i) {
    if (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY ||
        operands[i].encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM) {
      continue;
    }
    operands[i].mem.base = ZYDIS_REGISTER_NONE;
    operands[i].mem.disp.has_displacement = ZYAN_TRUE;
    operands[i].mem.disp.value = raw.disp.value;
  }
}

}  // namespace

bool Decode(absl::Span<const uint8_t> code, ZydisDecodedInstruction* instruction,
            ZydisDecodedOperand* operands) {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  const size_t size = std::min<size_t>(code.size(), ZYDIS_MAX_INSTRUCTION_LENGTH);
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code.data(), size, instruction, operands))) {
    return false;
  }
  CorrectBase(*instruction, operands);
  return true;
}

std::string Disassembly(uint64_t pc, absl::Span<const uint8_t> code) {
  ZydisDisassembledInstruction instruction;
  if (!ZYAN_SUCCESS(ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, pc, code.data(), code.size(),
                                          &instruction))) {
    return "?";
  }
  return instruction.text;
}

}  // namespace hindsight
