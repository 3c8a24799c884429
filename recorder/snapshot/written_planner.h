// Plans on a thread of its own which of a process's memory the next capture reads at its stop,
// while nobody waits for it: half-way to the time at which the next capture is expected.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_WRITTEN_PLANNER_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_WRITTEN_PLANNER_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "recorder/snapshot/block_pool.h"
#include "recorder/snapshot/written_memory.h"

namespace hindsight {

class WrittenPlanner {
 public:
  using Clock = std::chrono::steady_clock;

  // `pool` is borrowed. `most_bytes`: as of WrittenMemory::Plan; 0: it plans nothing.
  WrittenPlanner(pid_t process, uint64_t most_bytes, BlockPool* pool);
  ~WrittenPlanner();
  WrittenPlanner(const WrittenPlanner&) = delete;
  WrittenPlanner& operator=(const WrittenPlanner&) = delete;

  // A capture has been taken: its copy shows what is written from now on.
  void Begin();
  // For the next one: nothing if there was no time for a plan.
  WrittenMemory Take();

 private:
  void Loop();

  const pid_t process_;
  const uint64_t most_bytes_;
  BlockPool* const pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the rest is.
  std::optional<Clock::time_point> due_;
  std::optional<Clock::time_point> begun_;
  bool planning_ = false;
  bool over_ = false;
  uint64_t turn_ = 0;
  WrittenMemory planned_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_WRITTEN_PLANNER_H_
