// A signal frame below the stack of a stopped thread that has its registers and its mask. A thread
// that makes system calls for its tracer returns from each of them to the frame's restorer, and so,
// if the tracer has been killed meanwhile, goes on as after a signal: it has lost nothing but the
// rest of a sleep (EINTR).
//
// Not copyable. The host thread that traces.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_WAY_BACK_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_WAY_BACK_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <vector>

#include "recorder/ptrace/whole/call_site.h"

namespace hindsight {

class WayBack {
 public:
  // For a thread with these registers and this mask. Does nothing if the site has no restorer, or
  // the stack no room.
  WayBack(pid_t thread, const CallSite& site, const user_regs_struct& registers, uint64_t mask);
  // Puts back what was below the stack. The thread must have its registers again.
  ~WayBack();
  WayBack(const WayBack&) = delete;
  WayBack& operator=(const WayBack&) = delete;

  // The stack pointer for the calls; 0: there is no way back.
  uint64_t stack() const { return stack_; }

 private:
  const pid_t thread_;
  uint64_t stack_ = 0;
  std::vector<uint8_t> overwritten_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_WAY_BACK_H_
