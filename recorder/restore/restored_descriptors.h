// The descriptors of a process that is being built.
//
//   0, 1, 2           those of this process, and so are others that were the same; but an input
//   that
//                     was a file is that file, from where it was read
//   files             opened again, at the same offset
//   pipes             of which it had both ends: made again, with what was unread
//   eventfd, epoll,
//   timerfd, signalfd made again
//
// What cannot be had again is replaced by something that is at its end, and named.

#ifndef HINDSIGHT_RECORDER_RESTORE_RESTORED_DESCRIPTORS_H_
#define HINDSIGHT_RECORDER_RESTORE_RESTORED_DESCRIPTORS_H_

#include "absl/status/status.h"
#include "recorder/restore/remote.h"
#include "recorder/restore/restore_notes.h"
#include "tracefmt/kernel_state.h"

namespace hindsight {

// Requires: the process has 0, 1 and 2, and no others.
absl::Status RestoreDescriptors(const KernelState& kernel, Remote* remote, RestoreNotes* notes);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_RESTORED_DESCRIPTORS_H_
