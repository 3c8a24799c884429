#include "recorder/translate/view/kept_views.h"

#include <sys/syscall.h>

#include "recorder/translate/view/raw_call.h"

namespace hindsight {
namespace {

uint64_t Load(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

bool Change(uint64_t* word, uint64_t from, uint64_t to) {
  return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

}  // namespace

uint64_t KeptViews::Pages() const {
  uint64_t pages = 0;
  for (uint64_t i = 0; i < kMostViews; ++i) {
    if (Load(&words_[i]) != 0) pages += Load(&pages_[i]);
  }
  return pages;
}

// Whether what was `word`, a kept view, is free now.
bool KeptViews::ReleaseAt(uint64_t place, uint64_t word, Release release) {
  const uint64_t number = word >> 2;
  if (!Change(&words_[place], word, Word(number, kBeingReleased))) return false;
  release(number);
  __atomic_store_n(&words_[place], 0, __ATOMIC_SEQ_CST);
  return true;
}

void KeptViews::Keep(uint64_t number, uint64_t pages, Release release) {
  if (pages > kMostPages) {
    release(number);
    return;
  }
  uint64_t place = __atomic_fetch_add(&next_, 1, __ATOMIC_SEQ_CST) % kMostViews;
  for (uint64_t i = place; i < place + kMostViews && Pages() + pages > kMostPages; ++i) {
    const uint64_t word = Load(&words_[i % kMostViews]);
    if ((word & 3) == kKept) ReleaseAt(i % kMostViews, word, release);
  }
  while (true) {
    const uint64_t word = Load(&words_[place]);
    if ((word & 3) == kKept && ReleaseAt(place, word, release)) continue;
    if (word == 0 && Change(&words_[place], 0, Word(number, kKept))) break;
    RawCall(SYS_sched_yield);
  }
  __atomic_store_n(&pages_[place], pages, __ATOMIC_SEQ_CST);
}

void KeptViews::GiveBack(uint64_t number, Release release) {
  for (uint64_t place = 0; place < kMostViews; ++place) {
    uint64_t word = Load(&words_[place]);
    while (word >> 2 == number && !ReleaseAt(place, Word(number, kKept), release)) {
      RawCall(SYS_sched_yield);
      word = Load(&words_[place]);
    }
  }
}

bool KeptViews::Has(uint64_t number) const {
  for (const uint64_t& word : words_) {
    if (Load(&word) == Word(number, kKept)) return true;
  }
  return false;
}

void KeptViews::Forget() {
  for (uint64_t& word : words_) word = 0;
}

}  // namespace hindsight
