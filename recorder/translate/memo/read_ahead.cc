#include "recorder/translate/memo/read_ahead.h"

#include <algorithm>

namespace hindsight {

// A program that goes by the order asks for what comes next, or for what it gets to before the
// service does. It may leave out some that another one, or the same with other input, has executed.
void ReadAhead::Ask(uint32_t place) {
  const bool in_order = asked_ <= place && place <= uint64_t{next_} + size_;
  size_ = in_order ? std::clamp(2 * size_, kLeast, kMost) : size_ / 2;
  asked_ = place;
  next_ = place + 1;
  left_ = size_;
}

void ReadAhead::NoteTaken() {
  ++next_;
  --left_;
}

}  // namespace hindsight
