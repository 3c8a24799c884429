// When a thread last learned or changed bytes of a page, in its present segment: of several threads
// that know a page the one that knows it best is asked.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "keyframes/memory/page_bits.h"
#include "keyframes/timeline/thread_replay.h"

namespace hindsight {

struct ByteKnowledge {
  uint64_t count = 0;
  bool imported = false;  // in that state; else changed by the transition that led to it
  // Of an import: no other thread of the process had it.
  bool is_new = false;
};
using PageKnowledge = std::vector<ByteKnowledge>;  // of each byte of a page

// Of those `bytes` of `page`, up to its present state. Changes before the state `since` need
// not be found. Afterwards it may be elsewhere in the segment, and stops set in the replay are
// gone. Requires: it has a present state.
absl::StatusOr<PageKnowledge> LastKnown(ThreadReplay* replay, uint64_t page, const PageBits& bytes,
                                        uint64_t since, const std::atomic<bool>* interrupt);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_
