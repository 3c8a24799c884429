// Instructions of 32 bits that in rare cases keep their destination's upper half, which Unicorn
// clears always: bsf and bsr of zero, and cmpxchg with memory when it succeeds (of rax).
//
// Nearly always the upper half is zero, or the operand of the bit scan is not, and nearly always
// the registers before the block already show it: a check of one or two of them decides whether the
// block can be run through. Instructions that are stepped are corrected afterwards: both kinds set
// ZF where they keep the register.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_CODE_UPPER_HALF_H_
#define HINDSIGHT_EMULATOR_CODE_UPPER_HALF_H_

#include <Zydis/Zydis.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {

inline constexpr uint8_t kNoGpr = 0xff;

// The number of the register that the instruction keeps if it sets ZF, and of which Unicorn clears
// the upper half; kNoGpr if there is none.
uint8_t KeptGpr(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands);

// Must hold of the registers where a block begins: the upper half of `upper` is zero, or the lower
// half of `lower` is not. kNoGpr: does not hold.
struct UpperHalfCheck {
  uint8_t upper = kNoGpr;
  uint8_t lower = kNoGpr;
  bool operator==(const UpperHalfCheck&) const = default;
};

struct BlockUpperHalves {
  std::vector<UpperHalfCheck> checks;
  bool unknown = false;  // the registers at the beginning do not show it: always to be stepped
};

// Of the block of instructions whose bytes are `code`.
BlockUpperHalves UpperHalvesOf(absl::Span<const uint8_t> code);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CODE_UPPER_HALF_H_
