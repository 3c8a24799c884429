#include "isa/decoder.h"

#include <algorithm>

namespace hindsight {

bool Decode(absl::Span<const uint8_t> code, ZydisDecodedInstruction* instruction,
            ZydisDecodedOperand* operands) {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  const size_t size = std::min<size_t>(code.size(), ZYDIS_MAX_INSTRUCTION_LENGTH);
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code.data(), size, instruction, operands));
}

}  // namespace hindsight
