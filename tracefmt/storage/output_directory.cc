#include "tracefmt/storage/output_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/storage/open_beneath.h"

namespace hindsight {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// The directory that `path` is in, as the user named it: links on the way there are theirs.
std::string ParentOf(absl::string_view path) {
  const size_t slash = path.find_last_of('/');
  if (slash == absl::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

// In a directory that everybody may write and that has no sticky bit, everybody may rename what is
// in it and put something else there. Of our own ones we decided so ourselves.
absl::Status CheckParent(int fd, const std::string& path) {
  struct stat status;
  if (fstat(fd, &status) != 0) return absl::ErrnoToStatus(errno, path);
  const bool open_to_all = (status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0;
  if (!open_to_all || status.st_uid == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      path,
      ": belongs to another user and everybody may replace what is in it; a recording holds "
      "all that the program knew"));
}

absl::StatusOr<bool> IsEmpty(int fd, const std::string& path) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  DIR* const directory = copy < 0 ? nullptr : fdopendir(copy);
  if (directory == nullptr) {
    const int error = errno;
    if (copy >= 0) close(copy);
    return absl::ErrnoToStatus(error, path);
  }
  bool empty = true;
  while (const dirent* entry = readdir(directory)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") empty = false;
  }
  closedir(directory);
  return empty;
}

// Ours, empty, and from now on nobody else's to read. `made`: by us, a moment ago, with the mode it
// shall have; what a file system without modes shows instead is no reason not to write there.
absl::Status TakeOver(int fd, const std::string& path, bool made) {
  struct stat status;
  if (fstat(fd, &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (status.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path,
                     ": belongs to another user; a recording holds all that the program "
                     "knew"));
  }
  ASSIGN_OR_RETURN(const bool empty, IsEmpty(fd, path));
  if (!empty) return absl::AlreadyExistsError(absl::StrCat(path, ": exists and is not empty"));
  if (!made && fchmod(fd, kDirectoryMode) != 0) return absl::ErrnoToStatus(errno, path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OutputDirectory> OutputDirectory::Create(const std::string& path) {
  // "DIR/" is DIR: with the slash a link would be followed.
  std::string own = path;
  while (own.size() > 1 && own.back() == '/') own.pop_back();
  const std::string parent_path = ParentOf(own);
  const UniqueFd parent(open(parent_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return absl::ErrnoToStatus(errno, parent_path);
  RETURN_IF_ERROR(CheckParent(parent.get(), parent_path));
  const std::string name = own.substr(own.find_last_of('/') + 1);
  if (name.empty()) return absl::AlreadyExistsError(absl::StrCat(path, ": exists"));
  const bool made = mkdirat(parent.get(), name.c_str(), kDirectoryMode) == 0;
  if (!made && errno != EEXIST) return absl::ErrnoToStatus(errno, path);
  UniqueFd fd(openat(parent.get(), name.c_str(), kDirectoryFlags));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, path);
  // Also one just made: somebody else may have been quicker.
  RETURN_IF_ERROR(TakeOver(fd.get(), path, made));
  return OutputDirectory(path, std::move(fd));
}

absl::StatusOr<OutputDirectory> OutputDirectory::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), kDirectoryFlags));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, path);
  return OutputDirectory(path, std::move(fd));
}

std::string OutputDirectory::PathOf(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

OutputDirectory OutputDirectory::In(absl::string_view name) const {
  OutputDirectory directory = *this;
  directory.path_ = PathOf(name);
  directory.below_ = below_.empty() ? std::string(name) : absl::StrCat(below_, "/", name);
  return directory;
}

std::string OutputDirectory::BelowRoot(absl::string_view name) const {
  return below_.empty() ? std::string(name) : absl::StrCat(below_, "/", name);
}

absl::StatusOr<OutputDirectory::Place> OutputDirectory::Find(absl::string_view name) const {
  const std::string whole = BelowRoot(name);
  const size_t slash = whole.find_last_of('/');
  Place place = {.directory = root_->directory.get()};
  if (slash != std::string::npos) {
    place.opened = OpenBeneath(place.directory, whole.substr(0, slash),
                               O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!place.opened.valid()) return absl::ErrnoToStatus(errno, PathOf(name));
    place.directory = place.opened.get();
  }
  place.name = slash == std::string::npos ? whole : whole.substr(slash + 1);
  return place;
}

absl::Status OutputDirectory::MakeDirectory(absl::string_view name) const {
  ASSIGN_OR_RETURN(const Place place, Find(name));
  if (mkdirat(place.directory, place.name.c_str(), kDirectoryMode) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, PathOf(name));
}

absl::StatusOr<UniqueFd> OutputDirectory::OpenOnceAt(absl::string_view name, int flags) const {
  UniqueFd fd = OpenBeneath(root_->directory.get(), BelowRoot(name),
                            flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                            (flags & O_CREAT) != 0 ? kFileMode : 0);
  if (!fd.valid()) return absl::ErrnoToStatus(errno, PathOf(name));
  return fd;
}

absl::StatusOr<UniqueFd> OutputDirectory::OpenAt(absl::string_view name, int flags) const {
  absl::StatusOr<UniqueFd> opened = OpenOnceAt(name, flags);
  if (!absl::IsResourceExhausted(opened.status()) || !root_->recent.ForgetAll()) return opened;
  return OpenOnceAt(name, flags);
}

absl::StatusOr<UniqueFd> OutputDirectory::CreateFile(absl::string_view name) const {
  return OpenAt(name, O_RDWR | O_CREAT | O_EXCL);
}

absl::StatusOr<UniqueFd> OutputDirectory::OpenFile(absl::string_view name) const {
  return OpenAt(name, O_RDWR);
}

absl::StatusOr<RecentFiles::File> OutputDirectory::OpenRecent(absl::string_view name) const {
  std::string whole = BelowRoot(name);
  if (RecentFiles::File known = root_->recent.Find(whole)) return known;
  ASSIGN_OR_RETURN(UniqueFd opened, OpenFile(name));
  auto file = std::make_shared<const UniqueFd>(std::move(opened));
  root_->recent.Add(std::move(whole), file);
  return file;
}

absl::Status OutputDirectory::Rename(absl::string_view from, absl::string_view to) const {
  ASSIGN_OR_RETURN(const Place source, Find(from));
  ASSIGN_OR_RETURN(const Place target, Find(to));
  for (const absl::string_view name : {from, to}) root_->recent.Forget(BelowRoot(name));
  if (renameat(source.directory, source.name.c_str(), target.directory, target.name.c_str()) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, PathOf(to));
}

bool OutputDirectory::Remove(absl::string_view name) const {
  root_->recent.Forget(BelowRoot(name));
  const absl::StatusOr<Place> place = Find(name);
  return place.ok() && unlinkat(place->directory, place->name.c_str(), 0) == 0;
}

absl::StatusOr<uint64_t> OutputDirectory::Delete(absl::string_view name) const {
  root_->recent.Forget(BelowRoot(name));
  ASSIGN_OR_RETURN(const Place place, Find(name));
  struct stat status;
  const int directory = place.directory;
  if (fstatat(directory, place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      unlinkat(directory, place.name.c_str(), 0) != 0) {
    return absl::ErrnoToStatus(errno, PathOf(name));
  }
  return static_cast<uint64_t>(status.st_size);
}

absl::Status OutputDirectory::DeleteDirectory(absl::string_view name) const {
  ASSIGN_OR_RETURN(const Place place, Find(name));
  if (unlinkat(place.directory, place.name.c_str(), AT_REMOVEDIR) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, PathOf(name));
}

}  // namespace hindsight
