// Cpus for threads: one is kept when its thread ends, since making one takes long.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_CPU_POOL_H_
#define HINDSIGHT_RECORDER_EMULATE_CPU_POOL_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "emulator/cpu/cpu.h"

namespace hindsight {

class CpuPool {
 public:
  CpuPool() = default;
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  // An empty one, as good as new, that checks alignment.
  absl::StatusOr<std::unique_ptr<Cpu>> Take(Pager* pager);
  void GiveBack(std::unique_ptr<Cpu> cpu);

 private:
  std::vector<std::unique_ptr<Cpu>> spare_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_CPU_POOL_H_
