// A system call that says EINTR for a signal that is ignored.
//
// The kernel drops such a signal where it is sent, but not if the thread is traced: then it wakes
// the thread, and calls that do not go on by themselves (epoll_wait and its like) say EINTR. So the
// call is made again:
//
//   says EINTR --> MakeAgain --> the signal is ignored --> the call begins --> returns --> Finish
//                      |                                                         |
//                      |                   <-------------------------------------+  MakeAgain
//                      +--> a signal with a handler --> TakeBack: it has said EINTR after all
//
// It then waits its whole timeout again: its arguments and memory stay the program's. So it is to
// be ended at end_ns() (PTRACE_INTERRUPT), and has the result of a timeout then. Without a recorder
// that does so, it only ends later.
//
// Borrows the tracee. Not copyable. One host thread: the tracer. Requires: the thread is stopped.

#ifndef HINDSIGHT_RECORDER_EMULATE_SYNC_DISTURBED_CALL_H_
#define HINDSIGHT_RECORDER_EMULATE_SYNC_DISTURBED_CALL_H_

#include <cstdint>
#include <optional>

#include "isa/registers.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/call_timeout.h"

namespace hindsight {

class DisturbedCall {
 public:
  explicit DisturbedCall(Tracee* tracee) : tracee_(tracee) {}
  DisturbedCall(const DisturbedCall&) = delete;
  DisturbedCall& operator=(const DisturbedCall&) = delete;

  // The thread is about to make a call. Times are in nanoseconds by one monotonic clock.
  void Begin(uint64_t now_ns);
  // Call `number` has returned with the registers `after`. Whether that is only for signals that
  // are ignored: then the thread stands before the call again. If its time is over, it has the
  // result of that instead. `lost`: also if no signal is to be seen, since another thread may have
  // taken it.
  bool MakeAgain(int64_t number, const RegisterFile& after, uint64_t now_ns, bool lost);
  // It is not made again: a handler runs first. The thread stands after it.
  void TakeBack();
  // The call has returned for good.
  void Finish() { returned_.reset(); }

  // When a call that is made again is to be ended; nullopt: none is, or it waits for ever.
  std::optional<uint64_t> end_ns() const;

 private:
  Tracee* const tracee_;
  uint64_t begun_ns_ = 0;
  std::optional<RegisterFile> returned_;  // made again: what it had returned
  std::optional<CallTimeout> timeout_;    // likewise
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_SYNC_DISTURBED_CALL_H_
