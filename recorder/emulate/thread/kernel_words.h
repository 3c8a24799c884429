// Where the kernel stores to a thread's memory on its own account, in no system call of the thread:
//
//   as it starts   its id, at the address given to clone (CLONE_CHILD_SETTID)
//   as it runs     its struct rseq: the processor it runs on, whenever it gets back to the program
//   as it ends     zero where its id was (CLONE_CHILD_CLEARTID), and the words of the robust
//                  mutexes that it still holds
//
// Copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_KERNEL_WORDS_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_KERNEL_WORDS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

class KernelWords {
 public:
  // The thread was made by clone with these flags, and this address for its id.
  void OnClone(uint64_t flags, uint64_t tid_address);
  // set_tid_address; 0: nowhere.
  void set_tid_at_end(uint64_t address) { tid_at_end_ = address; }
  // Where its struct rseq is; 0: it has none.
  void set_rseq(uint64_t address) { rseq_ = address; }
  // The words of its robust mutexes, as it is about to end or to leave its memory; empty in calls
  // that do neither.
  void set_robust_mutexes(std::vector<MemoryRange> words) { robust_mutexes_ = std::move(words); }

  uint64_t rseq() const { return rseq_; }
  std::optional<MemoryRange> Rseq() const;
  std::optional<MemoryRange> AtStart() const;
  std::vector<MemoryRange> AtEnd() const;

 private:
  // 0: nowhere.
  uint64_t rseq_ = 0;
  uint64_t tid_at_start_ = 0;
  uint64_t tid_at_end_ = 0;
  std::vector<MemoryRange> robust_mutexes_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_KERNEL_WORDS_H_
