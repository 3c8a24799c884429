// Calls that say EINTR to whoever disturbs them, though nothing has happened (epoll_wait and its
// like): a thread that was stopped in one makes it again, and waits its whole timeout again. So the
// call is ended when it would have ended without stops, with the result that it would have had.
//
//   stop --> MakeAgain, before the thread goes on --> it waits --> stop --> MakeAgain --> ...
//                                                       +--> TakeDue: stop this thread only
//
// How long a call had waited before its first stop is not known: by so much it ends late.
//
// A call that is made again is known by arithmetic flags that no instruction leaves together. The
// kernel keeps them, and no program looks at those from before a call.
//
// Not copyable. One host thread: the tracer.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_DISTURBED_CALLS_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_DISTURBED_CALLS_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace hindsight {

class DisturbedCalls {
 public:
  DisturbedCalls() = default;
  DisturbedCalls(const DisturbedCalls&) = delete;
  DisturbedCalls& operator=(const DisturbedCalls&) = delete;

  // Sets the registers of a thread of `process` that is about to go on so that a call that was only
  // disturbed is made again, or has its result if its time is over. Not if a handler runs, or if
  // the signal is one that stops: the call would have said EINTR then as well.
  // `signal`: which is about to be delivered; 0: none. `stopped_ns`: since when the thread has
  // stood, by CLOCK_MONOTONIC. Requires: stopped.
  void MakeAgain(pid_t process, pid_t thread, int signal, uint64_t stopped_ns);

  // The registers that a stopped thread with these would have without its call's having been made
  // again: those of its first stop in the call.
  user_regs_struct OwnRegisters(pid_t thread, const user_regs_struct& registers) const;

  // When the next call is to be ended, by CLOCK_MONOTONIC; nullopt: none waits.
  std::optional<uint64_t> next_ns() const;
  // The threads whose calls are to be ended now; each of them once. They may be in other calls by
  // now, or gone.
  std::vector<pid_t> TakeDue(uint64_t now_ns);

 private:
  struct Call {
    user_regs_struct registers;  // as it was when it was disturbed first
    uint64_t end_ns = 0;
    int64_t result = 0;  // then
    bool taken = false;
  };
  // In the call, or still before it.
  bool IsMadeAgain(pid_t thread, const user_regs_struct& registers) const;

  std::map<pid_t, Call> calls_;  // by thread: with a timeout, made again
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_DISTURBED_CALLS_H_
