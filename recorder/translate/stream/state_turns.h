// Which of a thread's slices something came in that has no more than a state: several may begin in
// one, and what came in it before they did belongs to the one before.
//
// A value. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_STATE_TURNS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_STATE_TURNS_H_

#include <algorithm>
#include <cstdint>

#include "tracefmt/records.h"

namespace hindsight {

class StateTurns {
 public:
  // A slice begins in the state `count`.
  void Begin(uint64_t count) {
    if (count != count_) turns_ = 0;
    count_ = count;
    turns_ = std::min(turns_ + 1, UINT8_MAX);
    any_ = true;
  }
  // As PageImport has it, of what comes next in the state `count`.
  uint8_t In(uint64_t count) const {
    if (!any_) return PageImport::kFirstTurn;
    return count == count_ ? static_cast<uint8_t>(turns_) : 0;
  }

 private:
  bool any_ = false;
  uint64_t count_ = 0;
  int turns_ = 0;  // that have begun in it
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_STATE_TURNS_H_
