// What the kernel keeps of a process, read from a copy of it while the process runs on.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_COPIED_STATE_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_COPIED_STATE_H_

#include <sys/types.h>

#include "recorder/ptrace/whole/call_site.h"
#include "tracefmt/kernel_state.h"

namespace hindsight {

// Fills in signal actions, limits, the layout of memory, paths, umask and personality: the copy
// `copy` has the process's own of each. Requires: the copy is traced by this host thread and
// stopped. It makes system calls for it, at `site`, and has the memory that it had afterwards.
void ReadCopiedState(pid_t copy, const CallSite& site, KernelState* state);

// What a copy does not have and hardly changes: parent, group, session, timers of timer_create(2).
void ReadRelations(pid_t process, KernelState* state);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_COPIED_STATE_H_
