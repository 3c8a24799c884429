// Writes captures to the trace on a thread of its own, in order, while the program runs: when a
// processor has nothing else to do, as long as there is room for more.
//
// Not copyable. Its methods: one host thread.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_WRITE_THREAD_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_WRITE_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "recorder/pace/idle_pace.h"
#include "recorder/snapshot/block_pool.h"
#include "recorder/snapshot/capture.h"
#include "recorder/snapshot/snapshot_trace.h"

namespace hindsight {

class WriteThread {
 public:
  // `trace` is borrowed. `most_bytes`: what all copies that wait may come to take.
  WriteThread(SnapshotTrace* trace, uint64_t most_bytes);
  ~WriteThread() { Drain(); }
  WriteThread(const WriteThread&) = delete;
  WriteThread& operator=(const WriteThread&) = delete;

  // Whether there is room for one more of `resident_bytes`; there always is if none waits.
  bool HasRoom(uint64_t resident_bytes) const;
  // Waits until there is.
  void WaitForRoom(uint64_t resident_bytes);
  void Post(Capture capture);
  // Writes all that waits. Nothing may be posted after it.
  void Drain();
  // For captures that are to be posted.
  BlockPool* pool() { return &pool_; }
  // The first error: what is posted afterwards is dropped.
  absl::Status status() const;

 private:
  void Loop();
  void SetPace();
  bool Fits(uint64_t resident_bytes) const {
    return waiting_bytes_ == 0 || waiting_bytes_ + resident_bytes <= most_bytes_;
  }

  SnapshotTrace* const trace_;
  const uint64_t most_bytes_;
  BlockPool pool_{WrittenMemory::kMostBytes + BlockPool::kBlockBytes};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Capture> waiting_;  // guarded by mutex_, as the rest is
  uint64_t waiting_bytes_ = 0;   // with the one that is being written
  bool awaited_ = false;         // somebody waits for room
  bool closing_ = false;
  absl::Status status_;
  IdlePace pace_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_WRITE_THREAD_H_
