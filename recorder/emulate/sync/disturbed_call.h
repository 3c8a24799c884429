// A system call that says EINTR for a signal that is ignored.
//
// The kernel drops such a signal where it is sent, but not if the thread is traced: then it wakes
// the thread, and calls that do not go on by themselves (epoll_wait and its like) say EINTR. So the
// call is made again, for the time that is left:
//
//   says EINTR --> MakeAgain --> the signal is ignored --> the call begins --> returns --> Finish
//                      |                                                         |
//                      |                   <-------------------------------------+  MakeAgain
//                      +--> a signal with a handler --> TakeBack: it has said EINTR after all
//
// Meanwhile the register of its timeout has another value; a timespec is below the red zone of the
// thread's stack. Sockets (SO_RCVTIMEO, SO_SNDTIMEO) and io_uring_enter wait their whole time
// again.
//
// Borrows the tracee. Not copyable. One host thread: the tracer. Requires: the thread is stopped.

#ifndef HINDSIGHT_RECORDER_EMULATE_SYNC_DISTURBED_CALL_H_
#define HINDSIGHT_RECORDER_EMULATE_SYNC_DISTURBED_CALL_H_

#include <array>
#include <cstdint>
#include <ctime>
#include <optional>

#include "isa/registers.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {

class DisturbedCall {
 public:
  explicit DisturbedCall(Tracee* tracee) : tracee_(tracee) {}
  DisturbedCall(const DisturbedCall&) = delete;
  DisturbedCall& operator=(const DisturbedCall&) = delete;

  // The thread is about to make a call. Times are in nanoseconds by one monotonic clock.
  void Begin(uint64_t now_ns);
  // Call `number` has returned with the registers `after`. Whether that is only for signals that
  // are ignored: then the thread stands before the call again. `lost`: also if none is to be seen,
  // since another thread may have taken it.
  bool MakeAgain(int64_t number, const RegisterFile& after, uint64_t now_ns, bool lost);
  // It is not made again: a handler runs first. The thread stands after it.
  void TakeBack();
  // The call has returned for good: arguments and memory are the program's.
  void Finish();

 private:
  struct Scratch {
    uint64_t address = 0;
    std::array<uint8_t, sizeof(timespec)> before = {};
  };
  void SetTimeLeft(int64_t number, uint64_t now_ns, RegisterFile* again);
  bool WriteTime(uint64_t ns, uint64_t stack);
  void PutBackMemory();

  Tracee* const tracee_;
  uint64_t begun_ns_ = 0;
  std::optional<RegisterFile> returned_;  // made again: what it had returned first
  std::optional<Scratch> scratch_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_SYNC_DISTURBED_CALL_H_
