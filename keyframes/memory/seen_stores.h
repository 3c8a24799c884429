// What threads have seen of each other's stores: where they ran at the same time, a store of a
// thread may have been as late as its next event, unless another thread has seen a later one. So a
// line that was imported after the thread's last event says how far the thread had come, if after
// that event, and what the thread saw of others' stores since, a byte of it was not what was seen,
// until a store of the thread made it so; and
//   - the trace says that the thread showed the line just so by then (PageImport::Shown); or
//   - it does not say that of anybody, and the thread is the only one who can have made it so: who
//     has seen it had something else there before, and what third ones have stored there, or the
//     kernel for them, was over when the thread learned what it had before.
// (Not told apart: who has seen it stored the same there itself, in the transition before; a thread
// that stored the same as another one within the microsecond in which that was imported.)
//
// Borrows the process's state and views. One host thread at a time, for one moment.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_SEEN_STORES_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_SEEN_STORES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "keyframes/memory/learned_slices.h"
#include "keyframes/memory/thread_views.h"
#include "keyframes/state/process_state.h"

namespace hindsight {

class SeenStores {
 public:
  SeenStores(const ProcessState* process, ThreadViews* views, uint64_t moment,
             const std::atomic<bool>* interrupt)
      : process_(*process), views_(views), moment_(moment), interrupt_(interrupt) {}
  SeenStores(const SeenStores&) = delete;
  SeenStores& operator=(const SeenStores&) = delete;

  struct Sight {
    size_t slice = 0;
    uint64_t moment = 0;  // at which what was seen had been imported
  };
  // Where another thread has first seen the write, or one that the thread made after it in the same
  // slice: before the thread's next slice, and up to the moment. nullopt: none has, as far as is
  // known. `only_told`: what the trace says, not what follows from it.
  absl::StatusOr<std::optional<Sight>> FirstSight(const KnownByte& write, bool only_told,
                                                  LearnedSlices* learned);

 private:
  // A line that a thread has imported.
  struct Seen {
    int32_t by = 0;
    Sight at;
    bool shown = false;  // the trace says that the thread that is asked about showed it
    StoredLine line;
  };
  // Of a thread, after its last event in a slice.
  struct Evidence {
    uint64_t from = 0;       // the state that this led to
    std::vector<Seen> seen;  // ascending moments
  };

  absl::StatusOr<const Evidence*> EvidenceOf(int32_t thread, size_t slice, LearnedSlices* learned);
  absl::Status AddSeenBy(int32_t by, int32_t of, size_t after, uint64_t until,
                         std::vector<Seen>* seen);
  absl::StatusOr<bool> IsOnlyBy(int32_t thread, size_t slice, const Seen& seen, size_t byte,
                                LearnedSlices* learned);
  uint64_t TurnOf(int32_t thread, uint64_t moment) const;
  absl::StatusOr<std::optional<uint8_t>> ByteOf(int32_t thread, uint64_t moment, uint64_t address);

  const ProcessState& process_;
  ThreadViews* const views_;
  const uint64_t moment_;
  const std::atomic<bool>* const interrupt_;
  absl::flat_hash_map<std::pair<int32_t, size_t>, Evidence> evidence_;  // thread, slice
  // Thread, slice, which that was seen, and which of its bytes.
  absl::flat_hash_map<std::tuple<int32_t, size_t, size_t, size_t>, bool> only_by_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_SEEN_STORES_H_
