// Which blocks a run may not run through, by Block::flags.
//
// Copyable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CPU_BLOCK_FILTER_H_
#define HINDSIGHT_EMULATOR_CPU_BLOCK_FILTER_H_

#include <cstdint>

#include "emulator/code/block_cache.h"

namespace hindsight {

class BlockFilter {
 public:
  struct Run {
    bool logs_hits = false;         // breakpoints are counted instead of stopped at
    bool floats_outside = false;    // floating point is executed outside the engine
    bool checks_alignment = false;  // of what shows only in the block, too
    bool logs_orderable = false;
  };

  void Start(const Run& run) {
    stops_ = Block::kSpecial | Block::kStepOnly | Block::kStepHere;
    if (!run.logs_hits) stops_ |= Block::kBreakpoint;
    if (run.checks_alignment) stops_ |= Block::kUnchecked;
    slow_ = stops_ | Block::kBreakpoint | Block::kGuarded;
    if (run.logs_orderable) slow_ |= Block::kOrderable;
    SetFloatsOutside(run.floats_outside);
  }
  void SetFloatsOutside(bool floats_outside) {
    const uint16_t flag = floats_outside ? Block::kFloating : 0;
    stops_ = (stops_ & ~Block::kFloating) | flag;
    slow_ = (slow_ & ~Block::kFloating) | flag;
  }

  // Those of the block's flags that stop the run before it.
  uint16_t StopsAt(const Block& block) const { return block.flags & stops_; }
  // Whether there is nothing to do for the block but to count it.
  bool OnlyCounts(const Block& block) const { return (block.flags & slow_) == 0; }

 private:
  uint16_t stops_ = 0;
  uint16_t slow_ = 0;  // those, and all others that need work
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_BLOCK_FILTER_H_
