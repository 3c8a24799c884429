#include "recorder/translate/view/shared_ranges.h"

namespace hindsight {
namespace {

bool Replace(uint64_t* word, uint64_t old, uint64_t value) {
  return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

}  // namespace

void SharedRanges::Add(uint64_t start, uint64_t end) {
  for (Range& range : ranges_) {
    if (!Replace(&range.start, 0, start)) continue;
    __atomic_store_n(&range.end, end, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&used_, 1, __ATOMIC_SEQ_CST);
    return;
  }
}

void SharedRanges::Remove(uint64_t start, uint64_t end) {
  if (!any()) return;
  for (Range& range : ranges_) {
    const uint64_t from = __atomic_load_n(&range.start, __ATOMIC_SEQ_CST);
    if (from == 0 || from < start || __atomic_load_n(&range.end, __ATOMIC_SEQ_CST) > end) continue;
    if (Replace(&range.start, from, 0)) __atomic_sub_fetch(&used_, 1, __ATOMIC_SEQ_CST);
  }
}

bool SharedRanges::Contains(uint64_t address) const {
  for (const Range& range : ranges_) {
    const uint64_t start = __atomic_load_n(&range.start, __ATOMIC_RELAXED);
    if (start != 0 && address >= start && address < __atomic_load_n(&range.end, __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

}  // namespace hindsight
