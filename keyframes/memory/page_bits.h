// Some of the bytes of a page.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_PAGE_BITS_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_PAGE_BITS_H_

#include <bitset>

#include "tracefmt/records.h"

namespace hindsight {

// Bit i: byte i of the page.
using PageBits = std::bitset<kPageBytes>;

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_PAGE_BITS_H_
