// Which pages of a process another one, that was copied from the same program, has as well: not the
// same bytes, but the same page of the machine's memory, which nobody can write to meanwhile.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_SHARED_FRAMES_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_SHARED_FRAMES_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/unique_fd.h"

namespace hindsight {

// Not copyable. One host thread.
class SharedFrames {
 public:
  // Both processes stand still, and stay.
  SharedFrames(pid_t process, pid_t earlier);

  // For each page of [start, end) whether both have it, at the same address. All false where the
  // kernel does not tell (CAP_SYS_ADMIN). Requires: page boundaries, anonymous private memory.
  std::vector<bool> Find(uint64_t start, uint64_t end) const;

 private:
  const UniqueFd process_, earlier_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_SHARED_FRAMES_H_
