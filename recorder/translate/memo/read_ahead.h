// Which pages of a module to take in before they are asked for: those that come next in the order
// in which they were executed first, as kernels read files ahead.
//
//   order   ... | taken | taken | taken | next() |        |        |        | ...
//                 ^ asked for last        <------ left, at most kMost ------>
//
// Who follows the order gets twice as many each time, up to kMost. Who does not gets half as many,
// in the end none: such a program is mostly done with its pages before it comes to others, as a
// child that its parent's code runs in for a moment.
//
// Copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_READ_AHEAD_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_READ_AHEAD_H_

#include <cstdint>

namespace hindsight {

class ReadAhead {
 public:
  static constexpr uint32_t kLeast = 8, kMost = 128;

  // The page at `place` of the order was not there, and is now.
  void Ask(uint32_t place);

  // Whether the page at next() is to be taken in.
  bool HasNext() const { return left_ > 0; }
  uint32_t next() const { return next_; }
  // It was not there, and is now.
  void NoteTaken();
  // It is there, or cannot be.
  void Skip() { ++next_; }
  // No more until the next one is asked for.
  void Stop() { left_ = 0; }

 private:
  uint32_t asked_ = 0;  // place
  uint32_t next_ = 0;
  uint32_t size_ = 0;  // how many are taken after one that was asked for
  uint32_t left_ = 0;  // of them
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_READ_AHEAD_H_
