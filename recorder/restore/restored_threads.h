// The threads of a process that is being built: as many as the snapshot has, each with the
// registers, signal mask and name that it had, and what the kernel keeps for it.
//
// Ids are those of the snapshot where the kernel grants them; where it does not, the words in which
// the C library keeps them are changed.

#ifndef HINDSIGHT_RECORDER_RESTORE_RESTORED_THREADS_H_
#define HINDSIGHT_RECORDER_RESTORE_RESTORED_THREADS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "isa/registers.h"
#include "recorder/restore/remote.h"
#include "recorder/restore/restore_notes.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct RestoredThread {
  pid_t thread = 0;  // now
  FullKeyframe::ThreadState state;
  ThreadKernelState kernel;
  std::optional<siginfo_t> signal;  // that was about to be delivered to it
  bool signal_is_handled = false;   // by a function of the program
};

// Makes them, the process's first one first, and adds each to `threads` when it is there. The
// process's memory is in place.
absl::Status MakeThreads(const FullKeyframe& keyframe, int32_t process, Remote* remote,
                         std::vector<RestoredThread>* threads, RestoreNotes* notes);

// What the kernel keeps for each; calls are still made in them afterwards.
absl::Status RestoreThreadStates(const std::vector<RestoredThread>& threads, Remote* remote,
                                 RestoreNotes* notes);

// Registers and signal masks. No call can be made in them any more.
absl::Status RestoreRegisters(const std::vector<RestoredThread>& threads);
// Others than it had, for one of them. False: it is gone.
bool SetRegisters(const RestoredThread& thread, const RegisterFile& registers);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_RESTORED_THREADS_H_
