// Which parts of an address range have memory behind them: a program built with a sanitizer maps
// terabytes and uses megabytes.

#ifndef HINDSIGHT_RECORDER_POPULATED_RANGES_H_
#define HINDSIGHT_RECORDER_POPULATED_RANGES_H_

#include <cstdint>
#include <vector>

namespace hindsight {

struct AddressRange {
  uint64_t start = 0;
  uint64_t end = 0;
  bool operator==(const AddressRange&) const = default;
};

// The parts of [start, end), both page-aligned, that are present or swapped out, ascending, as told
// by `pagemap`, an open /proc/PID/pagemap. Takes time for what is populated only. Kernels before
// 6.7 cannot tell: the whole range is returned.
std::vector<AddressRange> PopulatedRanges(int pagemap, uint64_t start, uint64_t end);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_POPULATED_RANGES_H_
