#include "translator/host/branch_site.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace hindsight {
namespace {

constexpr uint8_t kInt3 = 0xcc;
constexpr int kMostPadding = 7;
// [i]: an instruction of i + 1 bytes that does nothing.
constexpr uint8_t kNops[kMostPadding][kMostPadding] = {
    {0x90},
    {0x66, 0x90},
    {0x0f, 0x1f, 0x00},
    {0x0f, 0x1f, 0x40, 0x00},
    {0x0f, 0x1f, 0x44, 0x00, 0x00},
    {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
    {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
};

// The padding, which nobody executes yet, becomes a NOP. False: that is not what is there.
bool FillPadding(uint8_t* padding, int32_t bytes) {
  if (bytes == 0) return true;
  if (bytes < 0 || bytes > kMostPadding) return false;
  const uint8_t* const nop = kNops[bytes - 1];
  if (std::memcmp(padding, nop, static_cast<size_t>(bytes)) == 0) return true;
  if (!std::all_of(padding, padding + bytes, [](uint8_t byte) { return byte == kInt3; })) {
    return false;
  }
  std::memcpy(padding, nop, static_cast<size_t>(bytes));
  return true;
}

}  // namespace

void SetBranch(uint8_t* rel32, int32_t displacement) {
  uint8_t* const opcode = rel32 - 1;
  const bool ends_block =
      rel32[-2] == kJumpPrefix && (*opcode == kJumpOpcode || *opcode == kFallThroughOpcode);
  const bool falls_through = ends_block && FillPadding(rel32 + sizeof(int32_t), displacement);
  // While the opcode is that of no jump, the displacement means nothing; while it is that of a
  // jump, it is right before and afterwards.
  __atomic_store_n(reinterpret_cast<int32_t*>(rel32), displacement, __ATOMIC_RELEASE);
  if (!ends_block) return;
  __atomic_store_n(opcode, falls_through ? kFallThroughOpcode : kJumpOpcode, __ATOMIC_RELEASE);
}

}  // namespace hindsight
