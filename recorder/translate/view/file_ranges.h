// Ranges of a process's private memory that show files.
//
// Runs inside the program: no library, no allocation. One thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_FILE_RANGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_FILE_RANGES_H_

#include <stdint.h>

namespace hindsight {

class FileRanges {
 public:
  static constexpr int kMost = 64;

  struct Range {
    uint64_t start, end;  // end 0: none
    uint64_t device, inode;
  };

  // False if there are kMost already.
  bool Add(const Range& range) {
    for (Range& one : ranges_) {
      if (one.end != 0) continue;
      one = range;
      return true;
    }
    return false;
  }
  // Those that lie in [start, end) as a whole.
  void Remove(uint64_t start, uint64_t end) {
    for (Range& one : ranges_) {
      if (one.start >= start && one.end <= end) one = {};
    }
  }
  bool any() const { return Touches(0, ~uint64_t{0}); }
  bool Touches(uint64_t start, uint64_t end) const {
    for (const Range& one : ranges_) {
      if (one.start < end && start < one.end) return true;
    }
    return false;
  }
  // Calls `visit(start, end)` for those of the file.
  template <typename Visit>
  void ForEach(uint64_t device, uint64_t inode, const Visit& visit) const {
    for (const Range& one : ranges_) {
      if (one.end != 0 && one.device == device && one.inode == inode) visit(one.start, one.end);
    }
  }

 private:
  Range ranges_[kMost] = {};
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_FILE_RANGES_H_
