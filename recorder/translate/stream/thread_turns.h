// Which thread's turn it is, as the trace has it: a slice wherever an orderable event, or what a
// thread sees of memory, is of another thread than the last one.
//
// A slice begins in the state of that event. What the thread executed before lies in its slice
// before, however much later it may have been: so a store lies before all that was seen of it.
//
// Borrows the clock and streams. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TURNS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TURNS_H_

#include <cstdint>

#include "recorder/translate/stream/thread_stream.h"
#include "recorder/translate/stream/tsc_clock.h"

namespace hindsight {

class ThreadTurns {
 public:
  explicit ThreadTurns(const TscClock* clock) : clock_(clock) {}
  ThreadTurns(const ThreadTurns&) = delete;
  ThreadTurns& operator=(const ThreadTurns&) = delete;

  // The process has several threads from now on: before, it needs no slices.
  void BeginSlices() { several_ = true; }
  // An orderable event of `stream`, or what it sees, at the time stamp `time`, comes next. (0: the
  // time of the one before.) `anew`: a slice begins even if the last one is of the same thread.
  void Next(ThreadStream* stream, uint64_t time, bool anew = false);
  // It comes to no more.
  void Forget(const ThreadStream* stream);

 private:
  const TscClock* const clock_;
  bool several_ = false;
  ThreadStream* last_ = nullptr;  // whose event was the last one
  uint64_t last_time_ = 0;        // of that event
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TURNS_H_
