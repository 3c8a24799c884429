// When a byte that a thread knows was learned or written, by slices: where threads ran at the same
// time an import was in its slice, but a write may have been as late as the thread's next event.
//
// Borrows the process's state. One host thread.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_LEARNED_SLICES_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_LEARNED_SLICES_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "keyframes/memory/thread_views.h"
#include "keyframes/state/process_state.h"

namespace hindsight {

// A byte as one thread knows it.
struct KnownByte {
  int32_t thread = 0;  // 0: nobody
  Learned learned;
};

class LearnedSlices {
 public:
  explicit LearnedSlices(const ProcessState* process) : process_(*process) {}

  // Index of the slice that it lies in.
  size_t Began(const KnownByte& known) const;
  // Index of the slice by whose numbers it was over: its own, if it is an event itself (a locked
  // instruction), one of the thread follows there, or what the thread saw begins it; else the
  // thread's next one.
  size_t WasOver(const KnownByte& known);
  // Index of the next slice of `thread`; the number of slices: there is none.
  size_t Next(int32_t thread, size_t slice) { return EndingOf(thread, slice).next; }
  // The state that the last event of `thread` in the slice led to.
  uint64_t LastEvent(int32_t thread, size_t slice) { return EndingOf(thread, slice).last_event; }

 private:
  struct Ending {
    uint64_t last_event = 0;
    size_t next = 0;  // the thread's next slice, or slices().size()
  };
  const Ending& EndingOf(int32_t thread, size_t slice);

  const ProcessState& process_;
  absl::flat_hash_map<size_t, Ending> endings_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_LEARNED_SLICES_H_
