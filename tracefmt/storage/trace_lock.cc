#include "tracefmt/storage/trace_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/status_macros.h"

namespace hindsight {

absl::StatusOr<UniqueFd> TakeTraceLock(const OutputDirectory& directory, const std::string& name) {
  ASSIGN_OR_RETURN(UniqueFd fd, directory.CreateFile(name));
  // Waits: a reader holds the lock for an instant while it looks.
  while (flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, directory.PathOf(name));
  }
  return fd;
}

bool TraceLockIsHeld(const TraceDirectory& files) {
  const absl::StatusOr<UniqueFd> fd = files.OpenFile("lock");
  if (!fd.ok()) return false;
  return flock(fd->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace hindsight
