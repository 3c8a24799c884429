// How far a thread has got: its count, the block that an engine executes, and where to stop.
//
//      block_start_count               count
//            |------ the block ----------|          effective limit
//   ---------+---------------------------+-------------------+------> counts
//
// A block is counted as a whole when it is entered. If it is left in its middle, the state is that
// of no count, and the last exact one is that of block_start_count().
//
// Not copyable. One thread at a time, but for RequestStop.

#ifndef HINDSIGHT_EMULATOR_CPU_RUN_PROGRESS_H_
#define HINDSIGHT_EMULATOR_CPU_RUN_PROGRESS_H_

#include <atomic>
#include <cstdint>

#include "emulator/code/block_cache.h"
#include "tracefmt/records.h"

namespace hindsight {

class RunProgress {
 public:
  RunProgress() = default;
  RunProgress(const RunProgress&) = delete;
  RunProgress& operator=(const RunProgress&) = delete;

  uint64_t count() const { return count_; }
  void set_count(uint64_t count) {
    work_offset_ += count_ - count;
    count_ = count;
  }
  // For transitions of this thread, not for setting the count anew.
  void Advance(uint64_t instructions) { count_ += instructions; }
  // Instructions executed so far, however often the count was set: a clock.
  uint64_t work() const { return count_ + work_offset_; }

  // Whether Run goes to its limit exactly, or may stop at the first block boundary at or after it.
  void set_exact(bool exact) { exact_ = exact; }
  // An engine is about to be started, which stops at `limit` at the latest.
  void StartEngine(uint64_t limit) {
    LeaveBlock();
    running_rep_ = Block::kNoAddress;
    block_start_count_ = count_;
    effective_limit_.store(limit, std::memory_order_relaxed);
    if (stop_requested_.load()) ForceExit();
  }
  // The same for one REP instruction, which has no limit.
  void StartRep() {
    LeaveBlock();
    running_rep_ = Block::kNoAddress;
  }
  // The engine stops at the next block.
  void ForceExit() { effective_limit_.store(0, std::memory_order_relaxed); }

  // Any thread and signal handler.
  void RequestStop() {
    stop_requested_.store(true);
    ForceExit();
  }
  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }
  // Whether a stop was requested; it is not any more.
  bool TakeStopRequest() { return stop_requested_.exchange(false); }

  // An exact run steps through its last block: run as a whole, Unicorn would translate what follows
  // it, which need not be executable.
  bool HasRoomFor(const Block& block) const {
    const uint64_t needs = exact_ ? block.instructions : 0;
    return count_ + needs < effective_limit_.load(std::memory_order_relaxed);
  }
  void Enter(const Block& block) {
    block_start_count_ = count_;
    block_address_ = block.address;
    block_size_ = block.size;
    running_rep_ = block.final_rep;
    count_ += block.instructions;
  }
  // The block is done, whatever happens to its page from now on.
  void LeaveBlock() { block_size_ = 0; }

  uint64_t block_start_count() const { return block_start_count_; }
  uint64_t block_address() const { return block_address_; }
  uint32_t block_size() const { return block_size_; }
  bool IsIn(const Block& block) const {
    return block_address_ == block.address && block_size_ == block.size;
  }
  // Whether the block that is executed touches `page`.
  bool IsOnPage(uint64_t page) const {
    return block_size_ != 0 && page + kPageBytes > block_address_ &&
           page < block_address_ + block_size_;
  }

  // The REP instruction that is executed, whose every iteration is a block to Unicorn;
  // Block::kNoAddress: none.
  uint64_t running_rep() const { return running_rep_; }
  void EnterRep(uint64_t address) { running_rep_ = address; }

 private:
  uint64_t count_ = 0;
  uint64_t work_offset_ = 0;
  bool exact_ = true;
  std::atomic<uint64_t> effective_limit_{0};  // 0: stop at the next block
  std::atomic<bool> stop_requested_{false};
  uint64_t block_start_count_ = 0;
  uint64_t block_address_ = 0;
  uint32_t block_size_ = 0;  // 0: in no block
  uint64_t running_rep_ = Block::kNoAddress;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_RUN_PROGRESS_H_
