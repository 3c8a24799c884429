// The ranges of memory that were unmapped or mapped anew by any thread of a process: what views
// show of them is to be forgotten.
//
// Nothing depends on it but memory: where there are several threads, what each loads is compared
// with memory anyway. All threads.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_DROPPED_PAGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_DROPPED_PAGES_H_

#include <stdint.h>

namespace hindsight {

struct DroppedRange {
  uint64_t start, end;
};

// How many there were so far.
uint64_t DroppedCount();

// Returns how many there were before.
uint64_t AddDropped(const DroppedRange& range);

// Number `position`; everything, if it is no longer known.
DroppedRange DroppedAt(uint64_t position);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_DROPPED_PAGES_H_
