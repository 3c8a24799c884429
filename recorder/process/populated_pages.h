// Which pages of a process's address range hold anything.
//
// Programs reserve far more than they use (AddressSanitizer: 20 TiB), so the cost must not depend
// on the number of pages in the range.

#ifndef HINDSIGHT_RECORDER_PROCESS_POPULATED_PAGES_H_
#define HINDSIGHT_RECORDER_PROCESS_POPULATED_PAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace hindsight {

struct PopulatedRange {
  uint64_t start = 0;
  uint64_t end = 0;
  bool own_copy = false;  // the process's own, no longer the page of the file mapped there
  bool operator==(const PopulatedRange&) const = default;
};

// Not copyable. One thread.
class PopulatedPages {
 public:
  // The kernel scans page tables itself from Linux 6.7 on; before that its tables are read page by
  // page, and ranges longer than kLongestRead, mostly empty reservations, are skipped.
  enum class Method : uint8_t { kScan, kRead };
  static constexpr uint64_t kLongestRead = uint64_t{64} << 30;

  explicit PopulatedPages(const std::string& pagemap_path, Method method = Method::kScan);

  // The populated parts of [start, end), ascending; nullopt if they cannot be determined. Requires:
  // page boundaries.
  std::optional<std::vector<PopulatedRange>> Find(uint64_t start, uint64_t end);
  // Whether there is any but the kernel's page of zeros, which reading gives; false if that cannot
  // be determined (kRead). Requires: page boundaries.
  bool HasContents(uint64_t start, uint64_t end) const;

 private:
  bool Scan(uint64_t start, uint64_t end, std::vector<PopulatedRange>* ranges);
  bool Read(uint64_t start, uint64_t end, std::vector<PopulatedRange>* ranges);

  UniqueFd pagemap_;
  Method method_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_POPULATED_PAGES_H_
