// The lock that tells a trace being recorded from one whose recorder died.
//
// An exclusive flock(2) on the file `lock`, held by the recorder from before the manifest exists
// until after it is final. The kernel drops it when the recorder dies, however that happens.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_TRACE_LOCK_H_
#define HINDSIGHT_TRACEFMT_STORAGE_TRACE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {

// Makes the file `name` and takes the lock; it lasts as long as the descriptor, which is not
// inherited over exec.
absl::StatusOr<UniqueFd> TakeTraceLock(const OutputDirectory& directory, const std::string& name);

// Whether a process holds the lock of the trace in `files`. False if it has no lock file.
bool TraceLockIsHeld(const TraceDirectory& files);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_TRACE_LOCK_H_
