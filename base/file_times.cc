#include "base/file_times.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdint>

namespace hindsight {

bool TellTimesOfStores(int fd) {
  constexpr uint64_t kXfs = 0x58465342, kZfs = 0x2fc12fc1;
  struct statfs system;
  if (fstatfs(fd, &system) != 0) return false;
  switch (static_cast<uint64_t>(system.f_type)) {
    case EXT4_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case SQUASHFS_MAGIC:
    case EROFS_SUPER_MAGIC_V1:
    case OVERLAYFS_SUPER_MAGIC:
    case kXfs:
    case kZfs:
      return true;
    default:
      return false;
  }
}

bool IsAtRest(const struct stat& file, time_t seconds) {
  return std::max(file.st_mtim.tv_sec, file.st_ctim.tv_sec) + seconds < time(nullptr);
}

}  // namespace hindsight
