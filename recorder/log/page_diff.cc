#include "recorder/log/page_diff.h"

#include <emmintrin.h>

#include <bit>
#include <cstring>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr int kLinesPerPage = kPageBytes / kLineBytes;
static_assert(kLinesPerPage == 64, "a mask has a bit for each");

// Whether two lines differ. Calling memcmp for each would take most of the time.
bool Differ(const uint8_t* a, const uint8_t* b) {
  const auto half = [](const uint8_t* line, size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(line) + i);
  };
  __m128i difference = _mm_setzero_si128();
  for (size_t i = 0; i < kLineBytes / sizeof(__m128i); ++i) {
    difference = _mm_or_si128(difference, _mm_xor_si128(half(a, i), half(b, i)));
  }
  return _mm_movemask_epi8(_mm_cmpeq_epi8(difference, _mm_setzero_si128())) != 0xffff;
}

constexpr uint8_t kZeroPage[kPageBytes] = {};

}  // namespace

uint64_t ChangedLines(const uint8_t* before, const uint8_t* after) {
  if (std::memcmp(before, after, kPageBytes) == 0) return 0;
  uint64_t mask = 0;
  for (int i = 0; i < kLinesPerPage; ++i) {
    if (Differ(before + i * kLineBytes, after + i * kLineBytes)) mask |= uint64_t{1} << i;
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
