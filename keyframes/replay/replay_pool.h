// Replays of a few segments, each with its checkpoints, for all threads of a process: going to and
// fro between them costs nothing, and however many threads there are, few Cpus exist.
//
// Borrows the trace. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_REPLAY_POOL_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_REPLAY_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "keyframes/replay/segment_replay.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ReplayPool {
 public:
  // Keeps `max_replays`, and more only where more are in use at once.
  ReplayPool(const TraceReader* trace, size_t max_replays, uint64_t checkpoint_bytes)
      : trace_(trace), max_replays_(max_replays), checkpoint_bytes_(checkpoint_bytes) {}
  ReplayPool(const ReplayPool&) = delete;
  ReplayPool& operator=(const ReplayPool&) = delete;

  // Someone's replay: null, or one of the pool's, in the state its holder left it in. The pool
  // takes it away when it needs it for something else, except while it is pinned.
  struct Holder {
    SegmentReplay* replay = nullptr;
    int pins = 0;
  };
  class Pin {
   public:
    explicit Pin(Holder* holder) : holder_(holder) { ++holder_->pins; }
    ~Pin() { --holder_->pins; }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    Holder* const holder_;
  };

  // The replay of a segment, in whatever state it was left, or at its start.
  absl::StatusOr<SegmentReplay*> Get(int32_t thread, uint64_t number);
  // `holder` (borrowed as long as the pool lives) has `replay` from now on, exclusively.
  void Give(SegmentReplay* replay, Holder* holder);
  // Most of the memory for checkpoints is for the replay that is moved in.
  void Favour(const SegmentReplay* active);
  // Removes the stops of all replays.
  void ClearStops();

  uint64_t checkpoints() const;
  uint64_t checkpoint_bytes() const;
  uint64_t states_replayed() const { return states_of_dropped_ + StatesOfKept(); }

 private:
  struct Kept {
    int32_t thread = 0;
    uint64_t number = 0;
    uint64_t last_used = 0;
    Holder* holder = nullptr;
    std::unique_ptr<SegmentReplay> replay;
  };

  absl::StatusOr<Kept*> Place();
  uint64_t StatesOfKept() const;
  uint64_t SegmentBytes() const;
  uint64_t ShareOfOthers() const;

  const TraceReader* const trace_;
  const size_t max_replays_;
  const uint64_t checkpoint_bytes_;
  std::vector<Kept> kept_;
  const SegmentReplay* favoured_ = nullptr;
  uint64_t uses_ = 0;
  uint64_t states_of_dropped_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_REPLAY_POOL_H_
