#include "recorder/translate/stream/thread_turns.h"

#include <algorithm>

namespace hindsight {

void ThreadTurns::Next(ThreadStream* stream, uint64_t time, bool anew) {
  time = std::max(time, last_time_);
  if (stream != last_ || anew) {
    if (last_ != nullptr) last_->FlushRun();
    if (several_) stream->BeginSlice(clock_->NsAt(time), clock_->NsAt(last_time_));
    last_ = stream;
  }
  last_time_ = time;
}

void ThreadTurns::Forget(const ThreadStream* stream) {
  if (stream == last_) last_ = nullptr;
}

}  // namespace hindsight
