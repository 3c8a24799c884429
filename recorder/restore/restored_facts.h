// What the kernel keeps of a process as a whole, besides memory, descriptors and signals: the
// addresses of its parts (brk among them), its directory, umask, limits.

#ifndef HINDSIGHT_RECORDER_RESTORE_RESTORED_FACTS_H_
#define HINDSIGHT_RECORDER_RESTORE_RESTORED_FACTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "recorder/restore/remote.h"
#include "recorder/restore/restore_notes.h"
#include "tracefmt/kernel_state.h"

namespace hindsight {

absl::Status RestoreFacts(const KernelState& kernel, const std::vector<uint64_t>& auxv,
                          Remote* remote, RestoreNotes* notes);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_RESTORED_FACTS_H_
