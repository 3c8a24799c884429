// Which memory operands of SSE instructions must be aligned, and what the registers at the start of
// a block must be for that.
//
// In their legacy encoding nearly all instructions with an operand of 16 bytes in memory fault if
// it is not aligned to 16 bytes (Intel SDM volume 1, 4.1.1, and volume 2, 2.5: exception types 1, 2
// and 4). Unicorn does not check this. Only the low four bits of addresses matter, and those of
// most results are linear in those of the registers: so a check of one or two registers before a
// block covers all of it.
//
// Stateless; any thread.

#ifndef HINDSIGHT_ISA_ALIGNMENT_H_
#define HINDSIGHT_ISA_ALIGNMENT_H_

#include <Zydis/Zydis.h>

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {

// The memory operand that must be aligned; null if there is none.
const ZydisDecodedOperand* AlignedOperand(const ZydisDecodedInstruction& instruction,
                                          const ZydisDecodedOperand* operands);

// An address modulo 16, as a sum of multiples of general registers.
struct AlignmentCheck {
  static constexpr uint64_t kModulus = 16;
  static constexpr int kMostTerms = 3;
  struct Term {
    uint8_t gpr = 0;
    uint8_t factor = 0;
    bool operator==(const Term&) const = default;
  };
  std::array<Term, kMostTerms> terms;
  uint8_t term_count = 0;
  uint8_t constant = 0;
  bool operator==(const AlignmentCheck&) const = default;
};

struct BlockAlignment {
  std::vector<AlignmentCheck> checks;  // all of these must be 0 where the block begins
  bool kept = true;      // a block that passes them passes them again if it follows itself
  bool unknown = false;  // there are operands whose addresses are computed in the block otherwise
};

// Of the block of instructions at `address` whose bytes are `code`.
BlockAlignment AlignmentOf(uint64_t address, absl::Span<const uint8_t> code);

// Whether the operand of the instruction that starts at code[0] is aligned, if it must be. `gpr` by
// hardware number.
bool OperandIsAligned(uint64_t address, absl::Span<const uint8_t> code,
                      absl::Span<const uint64_t> gpr, uint64_t fs_base, uint64_t gs_base);

// Whether all memory accesses of the same instruction are aligned to their size: while RFLAGS.AC is
// set the hardware refuses those that are not. Errs by calling some aligned that are not.
bool AccessesAreAligned(uint64_t address, absl::Span<const uint8_t> code,
                        absl::Span<const uint64_t> gpr, uint64_t fs_base, uint64_t gs_base);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_ALIGNMENT_H_
