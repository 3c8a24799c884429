// Which lines of a page a PageImport must carry.

#ifndef HINDSIGHT_RECORDER_LOG_PAGE_DIFF_H_
#define HINDSIGHT_RECORDER_LOG_PAGE_DIFF_H_

#include <cstdint>
#include <vector>

namespace hindsight {

// Bit i: line i of the page (kPageBytes) differs.
uint64_t ChangedLines(const uint8_t* before, const uint8_t* after);
// Bit i: line i of the page is not all zero.
uint64_t NonZeroLines(const uint8_t* page);
// The lines of `page` chosen by `mask`, one after the other.
std::vector<uint8_t> GatherLines(const uint8_t* page, uint64_t mask);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_PAGE_DIFF_H_
