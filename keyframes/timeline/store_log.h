// In which states the threads of a process store to watched memory, or bring something new into it,
// whether or not that changes what they themselves see.
//
// Where threads ran at the same time, one that stores what its view shows may change memory; but
// not as long as no other thread has stored there since it last did. This is found out by replaying
// the others once, as far as it is asked for, and kept while the watched memory stays the same.
//
// Borrows everything. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_STORE_LOG_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_STORE_LOG_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "emulator/cpu/cpu.h"
#include "keyframes/memory/memory_view.h"
#include "keyframes/replay/replay_pool.h"
#include "keyframes/state/process_state.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class StoreLog {
 public:
  StoreLog(const TraceReader* trace, const ProcessState* process, MemoryView* memory,
           uint64_t checkpoint_bytes);
  StoreLog(const StoreLog&) = delete;
  StoreLog& operator=(const StoreLog&) = delete;

  // The memory that is watched from now on.
  void Watch(const std::vector<Watchpoint>& watchpoints);
  // A moment, not before `moment`, up to which no thread but `thread` stores there after `moment`.
  // There may be later ones: it is looked for no further than costs little. kCancelled if
  // `interrupt` (may be null) was raised.
  absl::StatusOr<uint64_t> QuietUntil(int32_t thread, uint64_t moment,
                                      const std::atomic<bool>* interrupt);

 private:
  using SegmentKey = std::pair<int32_t, uint64_t>;  // thread, number
  struct Log {
    std::vector<CountRange> stores;   // ascending; of states below searched_to
    std::vector<CountRange> imports;  // ascending; of the whole segment
    uint64_t searched_to = 0;
  };

  uint64_t EndOf(const SegmentKey& key) const;
  absl::StatusOr<bool> Touches(const SegmentKey& key);
  absl::StatusOr<uint64_t> FirstStore(const SegmentKey& key, uint64_t low, uint64_t high,
                                      const std::atomic<bool>* interrupt);
  absl::Status Extend(const SegmentKey& key, uint64_t high, Log* log,
                      const std::atomic<bool>* interrupt);
  std::vector<CountRange> ImportsOf(const Segment& segment) const;

  const TraceReader* const trace_;
  const ProcessState* const process_;
  MemoryView* const memory_;
  ReplayPool pool_;
  std::vector<Watchpoint> watched_;
  absl::flat_hash_map<SegmentKey, Log> logs_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_STORE_LOG_H_
