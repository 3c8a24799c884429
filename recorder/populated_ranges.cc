#include "recorder/populated_ranges.h"

#include <sys/ioctl.h>

#include <cerrno>

namespace hindsight {
namespace {

// From Linux' Documentation/admin-guide/mm/pagemap.rst; Debian 12's headers are older than the
// call.
struct ScanArguments {
  uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct ScannedRegion {
  uint64_t start, end, categories;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);
constexpr uint64_t kIsPresent = 1 << 3;
constexpr uint64_t kIsSwapped = 1 << 4;

}  // namespace

std::vector<AddressRange> PopulatedRanges(int pagemap, uint64_t start, uint64_t end) {
  std::vector<AddressRange> ranges;
  ScannedRegion found[64];
  ScanArguments arguments = {.size = sizeof(ScanArguments),
                             .flags = 0,
                             .start = start,
                             .end = end,
                             .walk_end = 0,
                             .vec = reinterpret_cast<uint64_t>(found),
                             .vec_len = sizeof(found) / sizeof(found[0]),
                             .max_pages = 0,
                             .category_inverted = 0,
                             .category_mask = 0,
                             .category_anyof_mask = kIsPresent | kIsSwapped,
                             .return_mask = kIsPresent | kIsSwapped};
  while (arguments.start < end) {
    const int got = ioctl(pagemap, kPagemapScan, &arguments);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || arguments.walk_end <= arguments.start) return {{start, end}};
    for (int i = 0; i < got; ++i) {
      if (!ranges.empty() && ranges.back().end == found[i].start) {
        ranges.back().end = found[i].end;
      } else {
        ranges.push_back({found[i].start, found[i].end});
      }
    }
    arguments.start = arguments.walk_end;
  }
  return ranges;
}

}  // namespace hindsight
