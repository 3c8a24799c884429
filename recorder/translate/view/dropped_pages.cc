#include "recorder/translate/view/dropped_pages.h"

namespace hindsight {
namespace {

struct Slot {
  uint64_t number;  // of the range, + 1; 0: it is being written
  DroppedRange range;
};

constexpr uint64_t kSlots = 512;
Slot slots[kSlots];
uint64_t count;

constexpr DroppedRange kEverything = {0, ~uint64_t{0}};

}  // namespace

uint64_t DroppedCount() { return __atomic_load_n(&count, __ATOMIC_ACQUIRE); }

uint64_t AddDropped(const DroppedRange& range) {
  const uint64_t number = __atomic_fetch_add(&count, 1, __ATOMIC_ACQ_REL);
  Slot* slot = &slots[number % kSlots];
  __atomic_store_n(&slot->number, 0, __ATOMIC_SEQ_CST);
  slot->range = range;
  __atomic_store_n(&slot->number, number + 1, __ATOMIC_RELEASE);
  return number;
}

DroppedRange DroppedAt(uint64_t position) {
  const Slot* slot = &slots[position % kSlots];
  if (__atomic_load_n(&slot->number, __ATOMIC_ACQUIRE) != position + 1) return kEverything;
  const DroppedRange range = slot->range;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  const bool same = __atomic_load_n(&slot->number, __ATOMIC_RELAXED) == position + 1;
  return same ? range : kEverything;
}

}  // namespace hindsight
