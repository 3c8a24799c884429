// When a thread last learned or changed bytes of a page, in its present segment: of several threads
// that know a page the one that knows it best is asked.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_

#include <atomic>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "keyframes/memory/page_bits.h"
#include "keyframes/timeline/thread_replay.h"

namespace hindsight {

struct ByteKnowledge {
  uint64_t count = 0;
  bool imported = false;  // in that state; else changed by the transition that led to it
  // Of an import: no other thread of the process had it.
  bool is_new = false;
  uint8_t turn = PageImport::kFirstTurn;  // of an import: see there
};
using PageKnowledge = std::vector<ByteKnowledge>;  // of each byte of a page

// The last writes that were found so far, so that nothing is looked for twice: who goes from state
// to state asks about the same pages again. A value. One host thread at a time.
class LastWrites {
 public:
  // Of a byte. Valid for the states up to `at`; 0: nothing is known.
  struct Byte {
    uint64_t at = 0;
    uint64_t write = 0;  // the state that the last write up to there led to; 0: none after `low`
    uint64_t low = 0;
  };
  // Of a page in a segment, kPageBytes of them. Valid until the next call.
  std::vector<Byte>& Of(int32_t thread, uint64_t segment, uint64_t page);

 private:
  absl::flat_hash_map<std::tuple<int32_t, uint64_t, uint64_t>, std::vector<Byte>> pages_;
};

// Of those `bytes` of `page`, up to its present state. Changes before the state `since` need
// not be found. Afterwards it may be elsewhere in the segment, and stops set in the replay are
// gone. Requires: it has a present state.
absl::StatusOr<PageKnowledge> LastKnown(ThreadReplay* replay, uint64_t page, const PageBits& bytes,
                                        uint64_t since, LastWrites* writes,
                                        const std::atomic<bool>* interrupt);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_LAST_KNOWN_H_
