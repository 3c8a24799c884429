// The direct branches of translated code, which lead from block to block: where each leads is set
// while threads execute it.

#ifndef HINDSIGHT_TRANSLATOR_HOST_BRANCH_SITE_H_
#define HINDSIGHT_TRANSLATOR_HOST_BRANCH_SITE_H_

#include <cstdint>

namespace hindsight {

// How a jump that ends a block is encoded: rel32 follows. With the other opcode it is a mov of a
// constant to r11, which is dead there, and what follows it is executed.
inline constexpr uint8_t kJumpPrefix = 0x41, kJumpOpcode = 0xe9, kFallThroughOpcode = 0xbb;

// Has the branch whose rel32 is at `rel32`, and 4-byte aligned, lead `displacement` bytes further
// than its end. A jump to what follows it, but for padding (int3), becomes no jump. At each moment
// the branch leads where it led before or where it is to lead.
void SetBranch(uint8_t* rel32, int32_t displacement);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_HOST_BRANCH_SITE_H_
