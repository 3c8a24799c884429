#include "tracefmt/storage/open_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace hindsight {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// Opens `path` below `root` name by name, none of which may be a link.
UniqueFd Walk(int root, absl::string_view path, int flags, mode_t mode) {
  UniqueFd at;
  std::vector<std::string> names = absl::StrSplit(path, '/', absl::SkipEmpty());
  for (size_t i = 0; i < names.size(); ++i) {
    if (!IsOneName(names[i])) {
      errno = EXDEV;
      return UniqueFd();
    }
    const int wanted = i + 1 == names.size() ? flags : kDirectoryFlags;
    UniqueFd next(
        openat(at.valid() ? at.get() : root, names[i].c_str(), wanted | O_NOFOLLOW, mode));
    if (!next.valid()) return UniqueFd();
    at = std::move(next);
  }
  if (!at.valid()) errno = EINVAL;
  return at;
}

}  // namespace

bool IsOneName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\0');
}

UniqueFd OpenBeneath(int root, const std::string& path, int flags, mode_t mode) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how))));
  // Linux before 5.6 lacks this call, and filters older than it forbid what they do not know.
  if (!fd.valid() && (errno == ENOSYS || errno == EPERM)) return Walk(root, path, flags, mode);
  return fd;
}

}  // namespace hindsight
