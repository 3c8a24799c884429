// A thread that compresses and writes, in order, while the recorder goes on.
//
// Not copyable, not movable. Any number of threads post; each one's jobs run in its order. The
// first job that fails is the last one run: its status is sticky, later jobs are dropped. The
// destructor runs what is queued.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_WRITE_QUEUE_H_
#define HINDSIGHT_TRACEFMT_STORAGE_WRITE_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"

namespace hindsight {

class WriteQueue {
 public:
  using Job = std::function<absl::Status()>;

  // Post waits while `capacity` jobs are queued; with blocks of 256 KiB that bounds memory.
  explicit WriteQueue(size_t capacity);
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // Returns the sticky status, which may be of any job posted before.
  absl::Status Post(Job job);
  // Waits until everything posted before has run.
  absl::Status Drain();
  // Post, then Drain.
  absl::Status Run(Job job);
  // Runs the job even if one before it failed, and returns its own status, which is not sticky.
  absl::Status RunAnyway(const Job& job);

 private:
  struct Entry {
    Job job;
    bool anyway = false;  // runs even after another one has failed
  };

  void Loop();

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> jobs_;  // guarded by mutex_
  // Jobs so far; those that failed or were dropped are done.
  uint64_t posted_ = 0, done_ = 0;  // guarded by mutex_
  bool closing_ = false;            // guarded by mutex_
  absl::Status status_;             // guarded by mutex_
  std::thread thread_;              // last: it uses all of the above
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_WRITE_QUEUE_H_
