// Pages of guest memory by address. Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_VIEW_PAGE_H_
#define HINDSIGHT_EMULATOR_VIEW_PAGE_H_

#include <cstdint>

#include "tracefmt/records.h"

namespace hindsight {

// The address of the page that `address` lies on.
inline uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_VIEW_PAGE_H_
