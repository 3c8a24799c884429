// When a thread last learned or changed lines of a page, in its present segment: of several threads
// that know a page the one that knows it best is asked.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "keyframes/timeline/thread_replay.h"
#include "tracefmt/records.h"

namespace hindsight {

struct LineKnowledge {
  uint64_t count = 0;
  bool imported = false;  // in that state; else changed by the transition that led to it
};
using PageKnowledge = std::array<LineKnowledge, kPageBytes / kLineBytes>;

// Of those `lines` of `page`, up to its present state. Changes before the state `since` need
// not be found. Afterwards it may be elsewhere in the segment, and stops set in the replay are
// gone. Requires: it has a present state.
absl::StatusOr<PageKnowledge> LastKnown(ThreadReplay* replay, uint64_t page, uint64_t lines,
                                        uint64_t since, const std::atomic<bool>* interrupt);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_
