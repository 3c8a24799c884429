// Which thread's orderable event comes next, as the trace has it: a slice wherever that is another
// thread's than the last one.
//
// A slice begins in the state that the thread's last orderable event led to: what it executed since
// then belongs to the event that comes next.
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
  // An orderable event of `stream`, at the time stamp `time`, comes next.
  void Next(ThreadStream* stream, uint64_t time);
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
