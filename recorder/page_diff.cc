#include "recorder/page_diff.h"

#include <bit>
#include <cstring>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr int kLinesPerPage = kPageBytes / kLineBytes;
static_assert(kLinesPerPage == 64, "a mask has a bit for each");

constexpr uint8_t kZeroPage[kPageBytes] = {};

}  // namespace

uint64_t ChangedLines(const uint8_t* before, const uint8_t* after) {
  uint64_t mask = 0;
  for (int i = 0; i < kLinesPerPage; ++i) {
    const size_t at = i * kLineBytes;
    if (std::memcmp(before + at, after + at, kLineBytes) != 0) mask |= uint64_t{1} << i;
  }
  return mask;
}

uint64_t NonZeroLines(const uint8_t* page) { return ChangedLines(kZeroPage, page); }

std::vector<uint8_t> GatherLines(const uint8_t* page, uint64_t mask) {
  std::vector<uint8_t> lines(std::popcount(mask) * kLineBytes);
  uint8_t* out = lines.data();
  for (; mask != 0; mask &= mask - 1) {
    std::memcpy(out, page + std::countr_zero(mask) * kLineBytes, kLineBytes);
    out += kLineBytes;
  }
  return lines;
}

}  // namespace hindsight
