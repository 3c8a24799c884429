#include "recorder/emulate/cpu_pool.h"

#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr size_t kMostSpare = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<Cpu>> CpuPool::Take(Pager* pager) {
  std::unique_ptr<Cpu> cpu;
  if (spare_.empty()) {
    ASSIGN_OR_RETURN(cpu, Cpu::Create(pager));
  } else {
    cpu = std::move(spare_.back());
    spare_.pop_back();
    cpu->Recycle(pager);
  }
  cpu->CheckAlignment();
  return cpu;
}

void CpuPool::GiveBack(std::unique_ptr<Cpu> cpu) {
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(cpu));
}

}  // namespace hindsight
