// fcmov, which faults where one of its registers is empty, whether it moves or not. Unicorn's
// generated code does nothing at all where it does not move.
//
// The registers are hardly ever empty, and the tag word before the block shows which are: checking
// it decides whether the block can be run through. Where it cannot, fcmov is executed by the host.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_CODE_X87_STACK_H_
#define HINDSIGHT_EMULATOR_CODE_X87_STACK_H_

#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

// Whether it is an fcmov.
bool MovesX87Conditionally(uint16_t mnemonic);

// The registers st(0) and st(i) of an fcmov, whose bytes are `code`. Bit i: st(i).
uint8_t RegistersOfFcmov(absl::Span<const uint8_t> code);

struct BlockX87Stack {
  uint8_t needed = 0;    // bit i: what is st(i) where the block begins must not be empty
  bool unknown = false;  // that does not show it: always to be stepped
};

// Of the block of instructions whose bytes are `code`.
BlockX87Stack X87StackOf(absl::Span<const uint8_t> code);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CODE_X87_STACK_H_
