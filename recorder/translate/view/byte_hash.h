// The hash that a trace has of memory (tracefmt/memory_hash.h): XXH3-64, by general registers only.
//
// Runs inside the program: no library, no allocation. Any thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_BYTE_HASH_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_BYTE_HASH_H_

#include <stdint.h>

namespace hindsight {

uint64_t HashBytes(const void* bytes, uint64_t size);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_BYTE_HASH_H_
