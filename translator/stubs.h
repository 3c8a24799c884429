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
  // What a return does once its target has been compared with the view. Shared, since it is much
  // code, and predicted as well as if each return had its own: it ends with a ret.
  uint64_t return_to = 0;
  // And what it does where the place that it has found is not its target's.
  uint64_t search_return = 0;
};

struct Stubs {
  std::vector<uint8_t> code;
  StubAddresses addresses;
};

// The stubs of an arena, to be placed at `host_address`, a multiple of 16. At most kStubBytes.
Stubs EmitStubs(uint64_t host_address);

inline constexpr uint64_t kStubBytes = HS_STUB_BYTES;

// The element of HsThreadBlock::save that is the stubs' own.
inline constexpr int kStubSlot = 3;

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_STUBS_H_
