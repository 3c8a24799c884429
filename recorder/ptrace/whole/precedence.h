// Lets a thread run before the program's for an instant, so that the program stands still no longer
// than needed on a busy machine. Needs the right to (CAP_SYS_NICE); does nothing without it.
//
// Not copyable. Any host thread; the thread, by its id, may be any of the user's that ends with
// this process: others would keep it, were this process killed.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_PRECEDENCE_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_PRECEDENCE_H_

#include <sched.h>
#include <sys/types.h>

namespace hindsight {

class Precedence {
 public:
  // Whether what the thread makes meanwhile has it as well, for good.
  enum class Heirs : bool { kNo, kYes };

  explicit Precedence(pid_t thread, Heirs heirs = Heirs::kNo) : thread_(thread) {
    const int policy = heirs == Heirs::kYes ? SCHED_FIFO : SCHED_FIFO | SCHED_RESET_ON_FORK;
    const sched_param first = {.sched_priority = 1};
    policy_ = sched_getscheduler(thread);
    given_ = policy_ >= 0 && sched_getparam(thread, &parameters_) == 0 &&
             sched_setscheduler(thread, policy, &first) == 0;
  }
  ~Precedence() {
    if (given_) sched_setscheduler(thread_, policy_, &parameters_);
  }
  Precedence(const Precedence&) = delete;
  Precedence& operator=(const Precedence&) = delete;

 private:
  const pid_t thread_;
  int policy_ = 0;
  sched_param parameters_ = {};
  bool given_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_PRECEDENCE_H_
