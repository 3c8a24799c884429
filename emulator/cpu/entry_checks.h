// What must hold of the registers before a block is run through, or an instruction is stepped in an
// engine: alignment (isa/alignment.h), upper halves (upper_half.h), the x87 stack (x87_stack.h).
//
// A block that fails a check is stepped. Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_CPU_ENTRY_CHECKS_H_
#define HINDSIGHT_EMULATOR_CPU_ENTRY_CHECKS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "emulator/code/block_cache.h"
#include "emulator/unicorn/unicorn_engine.h"
#include "isa/registers.h"

namespace hindsight {

// Whether the block has checks at all.
inline bool HasEntryChecks(const Block& block) {
  constexpr uint16_t kChecked = Block::kAligned | Block::kUpperHalf | Block::kX87Stack;
  return (block.flags & kChecked) != 0;
}

// Whether the engine's registers allow to run through `block`, which is next. `again`: it is also
// the block that was executed last.
bool PassesEntryChecks(const Block& block, bool again, UnicornEngine* engine);

// Whether the fcmov whose bytes are `code` would read an empty register.
bool ReadsEmptyRegister(absl::Span<const uint8_t> code, const RegisterFile& registers);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_ENTRY_CHECKS_H_
