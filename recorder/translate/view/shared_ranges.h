// Ranges of a process's memory that other processes may write to: what a thread has seen of them
// may be another's by now.
//
// Nothing but what a debugger is shown depends on it: what a thread loads is compared with memory
// anyway. Runs inside the program: no library, no allocation. All threads; while ranges change,
// others may find some of them missing.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_SHARED_RANGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_SHARED_RANGES_H_

#include <stdint.h>

namespace hindsight {

class SharedRanges {
 public:
  static constexpr int kMost = 32;

  // [start, end), not at 0. Nothing happens if there are kMost already.
  void Add(uint64_t start, uint64_t end);
  // Those that lie in [start, end) as a whole.
  void Remove(uint64_t start, uint64_t end);

  bool any() const { return __atomic_load_n(&used_, __ATOMIC_RELAXED) != 0; }
  bool Contains(uint64_t address) const;

 private:
  struct Range {
    uint64_t start, end;  // start 0: none
  };
  Range ranges_[kMost] = {};
  uint32_t used_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_SHARED_RANGES_H_
