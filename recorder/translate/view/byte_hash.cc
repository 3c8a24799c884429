#include "recorder/translate/view/byte_hash.h"

// The header alone, without the library, its allocations, and vector registers.
#define XXH_INLINE_ALL
#define XXH_VECTOR 0               // XXH_SCALAR
#define XXH_FORCE_MEMORY_ACCESS 1  // memcpy would be called for each word
#include <xxhash.h>

namespace hindsight {

uint64_t HashBytes(const void* bytes, uint64_t size) { return XXH3_64bits(bytes, size); }

}  // namespace hindsight
