// Keeps a recording within its limits: has its traces drop their oldest parts, one part after the
// other, the oldest of the recording first.
//
// A *part* of a trace is what lies between two of its full keyframes. What a trace can do without
// is the part before its second one; and, of a process that has ended, the whole trace.
//
// Or, of a ring by threads, whoever has most drops its oldest part: each thread that lives, all
// that have ended together, and what all have in common; so a thread that records much does not
// push out what others recorded long ago.
//
// Not copyable. Methods are called on the write queue, but for those that say "any thread".

#ifndef HINDSIGHT_TRACEFMT_RING_RING_H_
#define HINDSIGHT_TRACEFMT_RING_RING_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/ring/ring_limits.h"

namespace hindsight {

// A trace of the recording.
class RingMember {
 public:
  virtual ~RingMember() = default;
  // Full keyframes it has.
  virtual size_t keyframes() const = 0;
  // When the part ended that it would drop next, as Ring::NowNs; nothing: it needs all it has.
  virtual std::optional<uint64_t> OldestEnd() const = 0;
  virtual absl::Status DropOldest() = 0;
  // Of a ring by threads: what the largest of its shares takes on disk that it could do without.
  virtual uint64_t LargestShare() const = 0;
  virtual absl::Status DropFromLargest() = 0;
  // It is nobody's that lives: the shares of all such are one.
  virtual bool ended() const = 0;
  // What that takes on disk for a while, at most.
  virtual uint64_t BytesToDrop() const = 0;
};

class Ring {
 public:
  // `bytes_on_disk` of the recording; borrowed.
  Ring(const RingLimits& limits, const std::atomic<uint64_t>* bytes_on_disk)
      : limits_(limits), bytes_on_disk_(bytes_on_disk) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Any thread.
  const RingLimits& limits() const { return limits_; }
  bool on() const { return limits_.any(); }
  uint64_t NowNs() const;  // since the recording began
  // All that was written so far, whether it is there or not; and without full keyframes.
  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  uint64_t recorded() const {
    const uint64_t keyframes = keyframe_bytes_.load(std::memory_order_relaxed);
    const uint64_t all = written();
    return all < keyframes ? 0 : all - keyframes;
  }

  void Add(RingMember* member) { members_.push_back(member); }
  void Remove(RingMember* member) { std::erase(members_, member); }
  // A full keyframe is about to be written: makes room for one like the last that referred to none
  // before it.
  absl::Status MakeRoom();
  // A full keyframe of so many bytes was written.
  void NoteKeyframe(uint64_t bytes, bool self_contained);
  // Whatever else was written: drops what goes beyond the limits. Cheap if nothing does.
  absl::Status Trim();

 private:
  bool IsOver(uint64_t reserve, uint64_t oldest_end, uint64_t now) const;
  absl::Status TrimFor(uint64_t reserve);
  RingMember* Oldest(uint64_t reserve, uint64_t now) const;
  RingMember* Largest() const;

  const RingLimits limits_;
  const std::atomic<uint64_t>* const bytes_on_disk_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<uint64_t> written_ = 0, keyframe_bytes_ = 0;
  uint64_t counted_ = 0;        // of bytes_on_disk_ are in written_
  uint64_t keyframe_size_ = 0;  // of the last self-contained one
  std::vector<RingMember*> members_;
};

// When the trace of a process is to have a full keyframe, and whether that may refer to earlier
// ones. One host thread at a time, but for Wants: any.
class RingPace {
 public:
  explicit RingPace(const Ring* ring) : ring_(ring) {}

  // A full keyframe is due: an eighth of what is to be kept was recorded since the last one.
  bool Wants() const;
  // One begins. Whether it is to hold all pages itself: a quarter of what is to be kept was written
  // since the last such one, so that parts before it do not keep files alive for long.
  bool BeginKeyframe();

 private:
  const Ring* const ring_;
  std::atomic<uint64_t> recorded_ = 0, ns_ = 0;  // at the last one
  uint64_t generation_written_ = 0, generation_ns_ = 0, generation_size_ = 0;
  bool any_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RING_RING_H_
