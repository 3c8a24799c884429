// Zydis, set up for 64-bit code. Stateless; any thread.

#ifndef HINDSIGHT_ISA_DECODER_H_
#define HINDSIGHT_ISA_DECODER_H_

#include <Zydis/Zydis.h>

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace hindsight {

// Decodes the instruction that starts at code[0]. False: there is none. Reads at most 15 bytes.
// `operands` has room for ZYDIS_MAX_OPERAND_COUNT.
bool Decode(absl::Span<const uint8_t> code, ZydisDecodedInstruction* instruction,
            ZydisDecodedOperand* operands);

// The same as people read it, in Intel's syntax; "?": there is none. It is at address `pc`.
std::string Disassembly(uint64_t pc, absl::Span<const uint8_t> code);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_DECODER_H_
