// The part of Unicorn's CPU state ("env") that our helpers work on. Only the helpers and
// helper_state.cc include this.

#ifndef HINDSIGHT_EMULATOR_UNICORN_HELPER_STATE_H_
#define HINDSIGHT_EMULATOR_UNICORN_HELPER_STATE_H_

#include <cstddef>
#include <cstdint>

namespace hindsight {

// As FXSAVE has it.
struct X87Register {
  uint64_t significand = 0;
  uint16_t exponent = 0;  // and the sign
  uint8_t unused[6] = {};
} __attribute__((packed, aligned(4)));

// Its layout is that of Unicorn's state.
struct X87Unit {
  uint32_t top = 0;
  uint16_t status = 0;  // without the top, and without exception flags that accrue while it runs
  uint16_t control = 0;
  uint8_t empty[8] = {};  // 1: the physical register is empty
  uint32_t unused = 0;
  X87Register at[8] = {};  // by physical number

  X87Register& st(unsigned i) { return at[(top + i) & 7]; }
  uint8_t& st_empty(unsigned i) { return empty[(top + i) & 7]; }
} __attribute__((aligned(4)));
static_assert(sizeof(X87Unit) == 20 + 8 * 16);
static_assert(offsetof(X87Unit, at) == 20);

// Offsets into Unicorn's state; measured before the helpers are used for anything else.
struct HelperOffsets {
  size_t x87 = 0;
  size_t flags = 0;  // the arithmetic flags of rflags, where an instruction has set all of them
};
extern HelperOffsets helper_offsets;

inline X87Unit& X87Of(void* env) {
  return *reinterpret_cast<X87Unit*>(static_cast<uint8_t*>(env) + helper_offsets.x87);
}

// What a comparison leaves in rflags: all other arithmetic flags are cleared.
inline void SetComparison(void* env, bool zero, bool parity, bool carry) {
  const uint64_t flags = uint64_t{zero} << 6 | uint64_t{parity} << 2 | uint64_t{carry};
  __builtin_memcpy(static_cast<uint8_t*>(env) + helper_offsets.flags, &flags, sizeof(flags));
}

// Defined in sse_helpers.cc and x87_helpers.cc; calling them has these files linked.
void LinkSseHelpers();
void LinkX87Helpers();

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_UNICORN_HELPER_STATE_H_
