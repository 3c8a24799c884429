#include "tracefmt/trace_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace hindsight {

absl::StatusOr<UniqueFd> TakeTraceLock(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, path);
  // Waits: a reader holds the lock for an instant while it looks.
  while (flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, path);
  }
  return fd;
}

bool TraceLockIsHeld(const TraceDirectory& files) {
  const absl::StatusOr<UniqueFd> fd = files.OpenFile("lock");
  if (!fd.ok()) return false;
  return flock(fd->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace hindsight
