#include "recorder/emulate/thread/kernel_words.h"

#include <sched.h>
#include <sys/types.h>

#include "recorder/process/rseq.h"

namespace hindsight {

void KernelWords::OnClone(uint64_t flags, uint64_t tid_address) {
  if ((flags & CLONE_CHILD_SETTID) != 0) tid_at_start_ = tid_address;
  if ((flags & CLONE_CHILD_CLEARTID) != 0) tid_at_end_ = tid_address;
}

std::optional<MemoryRange> KernelWords::Rseq() const {
  if (rseq_ == 0) return std::nullopt;
  return MemoryRange{rseq_, kRseqBytes};
}

std::optional<MemoryRange> KernelWords::AtStart() const {
  if (tid_at_start_ == 0) return std::nullopt;
  return MemoryRange{tid_at_start_, sizeof(pid_t)};
}

std::vector<MemoryRange> KernelWords::AtEnd() const {
  std::vector<MemoryRange> words;
  if (tid_at_end_ != 0) words.push_back({tid_at_end_, sizeof(pid_t)});
  words.insert(words.end(), robust_mutexes_.begin(), robust_mutexes_.end());
  return words;
}

}  // namespace hindsight
