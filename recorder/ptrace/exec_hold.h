// Holds a thread of a process that is not traced from before it executes a program until it stands
// at that program's first instruction.
//
// One host thread: the one that made it (a rule of ptrace). Not copyable. Destroyed while it holds:
// the thread goes on.

#ifndef HINDSIGHT_RECORDER_PTRACE_EXEC_HOLD_H_
#define HINDSIGHT_RECORDER_PTRACE_EXEC_HOLD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

namespace hindsight {

class ExecHold {
 public:
  enum class State : uint8_t {
    kNotYet,
    kAtStart,  // stopped at the end of the call, not traced any further: to be detached
    kGone,
  };

  // Null if `thread`, of `process`, cannot be held. It must be about to make the call, and not be
  // traced.
  static std::unique_ptr<ExecHold> Take(pid_t process, pid_t thread);
  ExecHold(const ExecHold&) = delete;
  ExecHold& operator=(const ExecHold&) = delete;
  ~ExecHold();

  // What has happened; does not wait for the call. If the thread has ended, its parent is told
  // (TakeEnd).
  State Poll();
  // Leaves the thread as it is: somebody else detaches it (DetachOrTakeEnd).
  void Release() { held_ = false; }

  pid_t process() const { return process_; }
  pid_t thread() const { return thread_; }

 private:
  ExecHold(pid_t process, pid_t thread) : process_(process), thread_(thread) {}

  const pid_t process_;
  const pid_t thread_;      // before the call; afterwards it is `process_`
  bool executing_ = false;  // the new image is in place, the call has not returned
  bool held_ = true;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_EXEC_HOLD_H_
