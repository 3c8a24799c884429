// Threads that compress and write while the recorder goes on: jobs one after the other, in order,
// by any of them, and what can be done before, for several jobs at the same time.
//
// Not copyable, not movable. Any number of threads post; each one's jobs run in its order. The
// first job that fails is the last one run: its status is sticky, later jobs are dropped. The
// destructor runs what is queued.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_WRITE_QUEUE_H_
#define HINDSIGHT_TRACEFMT_STORAGE_WRITE_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace hindsight {

// Of the threads that write a trace.
struct WriterOptions {
  int threads = 1;  // at least
  int nice = 0;     // as of nice(1), 0 to 19
};

class WriteQueue {
 public:
  using Job = std::function<absl::Status()>;
  // `thread`: less than WriterOptions::threads; no two have the same one at the same time.
  using Preparation = std::function<absl::Status(size_t thread)>;

  // Post waits while `capacity` jobs are queued; with blocks of 256 KiB that bounds memory.
  explicit WriteQueue(size_t capacity, const WriterOptions& options = {});
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // Runs after each job that succeeded, and fails like one. Requires: nothing has been posted.
  void SetAfterEach(Job job) { after_each_ = std::move(job); }

  // Returns the sticky status, which may be of any job posted before.
  absl::Status Post(Job job);
  // The same for a job before which `prepare` is to run, at any time.
  absl::Status Post(Preparation prepare, Job job);
  // Waits until everything posted before has run.
  absl::Status Drain();
  // Post, then Drain.
  absl::Status Run(Job job);
  // Runs the job even if one before it failed, and returns its own status, which is not sticky.
  absl::Status RunAnyway(const Job& job);

 private:
  struct Entry {
    Preparation prepare;  // empty: none, or it has begun
    Job job;
    bool anyway = false;  // runs even after another one has failed
    bool ready = true;    // `prepare` has ended
  };

  void Loop(size_t thread, int nice);
  // Each with mutex_ locked, which is not while a job runs. False: there was none.
  bool Write(std::unique_lock<std::mutex>* lock);
  bool Prepare(size_t thread, std::unique_lock<std::mutex>* lock);
  void DropJobs();

  const size_t capacity_;
  Job after_each_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> jobs_;  // guarded by mutex_, but for an entry's job that is being prepared
  bool writing_ = false;   // guarded by mutex_: a job runs
  // Jobs so far; those that failed or were dropped are done.
  uint64_t posted_ = 0, done_ = 0;    // guarded by mutex_
  bool closing_ = false;              // guarded by mutex_
  absl::Status status_;               // guarded by mutex_
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_WRITE_QUEUE_H_
