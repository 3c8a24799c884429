// How much memory a process may use, and the thread that enforces it.
//
// Guest memory is sparse: 256 MiB are mapped for one page of it, and shared, so that no rlimit
// counts it as it is used. The use is therefore measured, several times a second.

#ifndef HINDSIGHT_CONFINE_MEMORY_BUDGET_H_
#define HINDSIGHT_CONFINE_MEMORY_BUDGET_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace hindsight {

// Three quarters of what this machine, or the cgroup this process sees as its own, has.
uint64_t DefaultMemoryLimit();

// Memory of this process that is not backed by a file. Movable, not copyable. Works
// after the process was confined, if it was opened before. One thread at a time.
class MemoryMeter {
 public:
  static absl::StatusOr<MemoryMeter> Open();

  // An upper bound that costs less: pages mapped twice count twice, and those of files count.
  uint64_t UpperBound() const;
  // What is used; reads through all of the page tables.
  uint64_t Used() const;

 private:
  MemoryMeter(UniqueFd statm, UniqueFd rollup)
      : statm_(std::move(statm)), rollup_(std::move(rollup)) {}

  UniqueFd statm_;
  UniqueFd rollup_;
};

// Starts a thread, never to end, that calls `exceeded` once when more than `limit_bytes` are used.
void WatchMemory(MemoryMeter meter, uint64_t limit_bytes, std::function<void()> exceeded);

}  // namespace hindsight

#endif  // HINDSIGHT_CONFINE_MEMORY_BUDGET_H_
