// Code that the blocks of an arena share: the way out.

#ifndef HINDSIGHT_TRANSLATOR_STUBS_H_
#define HINDSIGHT_TRANSLATOR_STUBS_H_

#include <cstdint>
#include <vector>

#include "translator/thread_block.h"

namespace hindsight {

// Where they lie. Only Translate and the stubs themselves know what is expected there.
struct StubAddresses {
  uint64_t exit = 0;
  uint64_t indirect_exit = 0;
  // Where returns go on that find no place, or another target's: HS_SEARCH_RETURN bytes on.
  uint64_t search_return = 0;
  // Where direct branches that are not linked leave, with the guest's target in r11; and blocks
  // whose counter is negative, with the guest's pc there, and exit_adjust set.
  uint64_t link_exits = 0, counter_exits = 0;

  // The one of them for where these status flags are the guest's.
  uint64_t LinkExit(uint16_t flags_exact) const;
  uint64_t CounterExit(uint16_t flags_exact) const;
};

struct Stubs {
  std::vector<uint8_t> code;
  StubAddresses addresses;
};

// The stubs of an arena, to be placed at `host_address`, a multiple of 16. At most kStubBytes.
// `direct`: as blocks for exclusive memory need them. The addresses are the same.
Stubs EmitStubs(uint64_t host_address, bool direct = false);

inline constexpr uint64_t kStubBytes = HS_STUB_BYTES;

// The element of HsThreadBlock::save that is the stubs' own, and that in which returns say where
// their struct HsExit is.
inline constexpr int kStubSlot = 3, kReturnSlot = 0;

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_STUBS_H_
