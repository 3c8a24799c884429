// The signals of a traced thread: which it blocks, which wait for it, which its process handles;
// and single steps in spite of a blocked SIGTRAP.
//
// The kernel reports the end of a step by a SIGTRAP. It forces that through a mask that blocks it,
// but then resets the program's handler of it. So the mask must not block it meanwhile:
//
//   BeforeStep --> step --> AfterStop, at its next stop, whatever kind that is
//
// Not copyable. The host thread that traces. Requires, of all that change or read the mask: the
// thread is stopped.

#ifndef HINDSIGHT_RECORDER_PTRACE_TRACEE_SIGNALS_H_
#define HINDSIGHT_RECORDER_PTRACE_TRACEE_SIGNALS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace hindsight {

class TraceeSignals {
 public:
  // The kernel's sigset_t: 64 signals.
  static constexpr size_t kSetBytes = 8;

  TraceeSignals(pid_t process, pid_t thread) : process_(process), thread_(thread) {}
  TraceeSignals(const TraceeSignals&) = delete;
  TraceeSignals& operator=(const TraceeSignals&) = delete;

  // The program's mask, bit N - 1 for signal N: read when it is first asked for, and after Forget.
  uint64_t mask();
  bool known() const { return known_; }
  // The program may have changed it.
  void Forget() { known_ = false; }
  // What mask() said last.
  uint64_t last_mask() const { return mask_; }
  // Blocks all signals; puts last_mask() back. False if the thread is gone.
  bool BlockAll();
  bool PutBack();

  // Whether a signal is pending that is not blocked.
  bool HasDeliverable();
  // Whether the process ignores all that are, which natively would not be there; `or_none`: also if
  // there are none.
  bool OnlyIgnoredCome(bool or_none) const;
  // Whether the process has a handler for `signal`.
  bool Catches(int signal) const;

  // `signal`: is delivered first; 0: none.
  void BeforeStep(int signal);
  // `handler_entry`: the kernel has built a signal frame.
  void AfterStop(bool handler_entry);

 private:
  const pid_t process_, thread_;
  bool known_ = false;
  uint64_t mask_ = 0;
  bool stepping_ = false;  // the program blocks SIGTRAP, and a step of it has begun
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_TRACEE_SIGNALS_H_
