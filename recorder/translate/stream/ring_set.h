// The rings of one memory file, each with its reader: rings are used again, by threads one after
// the other, and positions go on.
//
// Owns what the rings lie in, if it is given. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_RING_SET_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_RING_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "recorder/translate/stream/ring_reader.h"

namespace hindsight {

class RingSet {
 public:
  // `rings`, by number, of `capacity` bytes each; null: there is none. `memory` is kept as long as
  // this is there.
  RingSet(absl::Span<HsRing* const> rings, uint64_t capacity,
          std::shared_ptr<const void> memory = nullptr)
      : memory_(std::move(memory)),
        rings_(rings.begin(), rings.end()),
        capacity_(capacity),
        readers_(rings.size()) {}
  RingSet(const RingSet&) = delete;
  RingSet& operator=(const RingSet&) = delete;

  // Null: there is no such ring. It is somebody's until Release, once for each Take: of threads
  // that have it one after the other, the second may come before the first is given up.
  RingReader* Take(uint64_t number) {
    RingReader* const reader = Reader(number);
    if (reader != nullptr) ++taken_[number];
    return reader;
  }
  void Release(uint64_t number) {
    if (--taken_[number] == 0) taken_.erase(number);
  }

  // See RingReader; 0 if there is no such ring.
  pid_t ThreadOf(uint64_t number) {
    const RingReader* const reader = Reader(number);
    return reader == nullptr ? 0 : reader->thread();
  }
  // See RingReader. Requires: taken.
  void AskToEndSegment(uint64_t number, uint64_t begun) {
    readers_[number]->AskToEndSegment(begun);
  }

  // Throws away what is in the rings that are nobody's, so that who writes there does not wait.
  void SkipOthers() {
    for (uint64_t i = 0; i < readers_.size(); ++i) {
      if (taken_.contains(i)) continue;
      if (RingReader* const reader = Reader(i)) reader->SkipAll();
    }
  }

 private:
  // A ring takes memory once it has been looked at: few of the many ever are.
  RingReader* Reader(uint64_t number) {
    if (number >= rings_.size() || rings_[number] == nullptr) return nullptr;
    std::unique_ptr<RingReader>& reader = readers_[number];
    if (reader == nullptr) {
      rings_[number]->capacity = capacity_;
      reader = std::make_unique<RingReader>(rings_[number], capacity_);
    }
    return reader.get();
  }

  const std::shared_ptr<const void> memory_;
  const std::vector<HsRing*> rings_;
  const uint64_t capacity_;
  std::vector<std::unique_ptr<RingReader>> readers_;  // by the ring's number; null: not yet
  std::map<uint64_t, int> taken_;                     // how often, if at all
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_RING_SET_H_
