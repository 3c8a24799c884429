#include "recorder/ptrace/whole/open_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// Of a pipe there can be no more without privileges.
constexpr int kMostUnread = 1 << 20;

DescriptorKind KindOf(const struct stat& status, const std::string& path) {
  switch (status.st_mode & S_IFMT) {
    case S_IFREG:
      return absl::StartsWith(path, "/memfd:") ? DescriptorKind::kMemory : DescriptorKind::kFile;
    case S_IFDIR:
      return DescriptorKind::kDirectory;
    case S_IFIFO:
      return absl::StartsWith(path, "pipe:") ? DescriptorKind::kPipe : DescriptorKind::kFifo;
    case S_IFSOCK:
      return DescriptorKind::kSocket;
    case S_IFCHR:
      return DescriptorKind::kCharacterDevice;
    case S_IFBLK:
      return DescriptorKind::kBlockDevice;
    default:
      return absl::StartsWith(path, "anon_inode:") ? DescriptorKind::kAnonymous
                                                   : DescriptorKind::kOther;
  }
}

// The descriptors of one process.
class DescriptorReader {
 public:
  explicit DescriptorReader(pid_t process)
      : process_(process),
        links_(open(absl::StrCat("/proc/", process, "/fd").c_str(),
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        infos_(open(absl::StrCat("/proc/", process, "/fdinfo").c_str(),
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

  std::vector<int> Numbers() const {
    std::vector<int> numbers;
    DIR* directory = links_.valid() ? fdopendir(dup(links_.get())) : nullptr;
    if (directory == nullptr) return numbers;
    while (const dirent* entry = readdir(directory)) {
      if (entry->d_name[0] != '.') numbers.push_back(std::atoi(entry->d_name));
    }
    closedir(directory);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  // False: it is not there.
  bool Read(int fd, OpenDescriptor* descriptor) const {
    const std::string name = absl::StrCat(fd);
    char path[PATH_MAX];
    const ssize_t length = readlinkat(links_.get(), name.c_str(), path, sizeof(path));
    struct stat status;
    if (length < 0 || fstatat(links_.get(), name.c_str(), &status, 0) != 0) return false;
    descriptor->fd = fd;
    descriptor->path.assign(path, static_cast<size_t>(length));
    descriptor->kind = KindOf(status, descriptor->path);
    descriptor->mode = status.st_mode;
    descriptor->device = status.st_dev;
    descriptor->inode = status.st_ino;
    descriptor->special_device = status.st_rdev;
    descriptor->size_bytes = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
    ReadInfo(name, descriptor);
    return true;
  }

 private:
  void ReadInfo(const std::string& name, OpenDescriptor* descriptor) const {
    const UniqueFd file(openat(infos_.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
    char text[4096];
    const ssize_t length = file.valid() ? read(file.get(), text, sizeof(text)) : -1;
    if (length < 0) return;
    const absl::string_view lines(text, static_cast<size_t>(length));
    for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      absl::string_view rest = line;
      if (absl::ConsumePrefix(&rest, "pos:")) {
        if (!absl::SimpleAtoi(rest, &descriptor->offset)) descriptor->offset = 0;
      } else if (absl::ConsumePrefix(&rest, "flags:")) {
        const auto flags =
            static_cast<uint32_t>(std::strtoul(std::string(rest).c_str(), nullptr, 8));
        descriptor->flags = flags & ~uint32_t{O_CLOEXEC};
        descriptor->close_on_exec = (flags & O_CLOEXEC) != 0;
      } else if (!absl::StartsWith(line, "mnt_id:") && !absl::StartsWith(line, "ino:")) {
        absl::StrAppend(&descriptor->details, line, "\n");
      }
    }
  }

  const pid_t process_;
  const UniqueFd links_, infos_;
};

// Nothing of it is consumed: tee(2).
std::optional<std::string> UnreadOf(int process, int fd) {
  const UniqueFd pipe_end(static_cast<int>(syscall(SYS_pidfd_getfd, process, fd, 0)));
  int bytes = 0;
  if (!pipe_end.valid() || ioctl(pipe_end.get(), FIONREAD, &bytes) != 0) return std::nullopt;
  std::string unread;
  if (bytes == 0) return unread;
  int ends[2];
  if (bytes > kMostUnread || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return std::nullopt;
  const UniqueFd out(ends[0]), in(ends[1]);
  // A pipe has room for a number of pieces, however small they are: at most one for each byte.
  fcntl(in.get(), F_SETPIPE_SZ, std::max(fcntl(pipe_end.get(), F_GETPIPE_SZ), 4096));
  const ssize_t got = tee(pipe_end.get(), in.get(), static_cast<size_t>(bytes), SPLICE_F_NONBLOCK);
  if (got != bytes) return std::nullopt;
  unread.resize(static_cast<size_t>(bytes));
  if (read(out.get(), unread.data(), unread.size()) != bytes) return std::nullopt;
  return unread;
}

void FindShared(pid_t process, std::vector<OpenDescriptor>* descriptors) {
  for (size_t i = 0; i < descriptors->size(); ++i) {
    OpenDescriptor& descriptor = (*descriptors)[i];
    descriptor.same_as = descriptor.fd;
    for (size_t k = 0; k < i; ++k) {
      const OpenDescriptor& other = (*descriptors)[k];
      if (other.inode != descriptor.inode || other.device != descriptor.device ||
          other.same_as != other.fd || other.flags != descriptor.flags) {
        continue;
      }
      const long order = syscall(SYS_kcmp, process, process, KCMP_FILE, descriptor.fd, other.fd);
      if (order == 0) descriptor.same_as = other.fd;
      if (order < 0) descriptor.same_as = -1;
      if (order <= 0) break;
    }
  }
}

}  // namespace

std::vector<OpenDescriptor> ReadDescriptors(pid_t process) {
  const DescriptorReader reader(process);
  std::vector<OpenDescriptor> descriptors;
  for (const int fd : reader.Numbers()) {
    OpenDescriptor descriptor;
    if (reader.Read(fd, &descriptor)) descriptors.push_back(std::move(descriptor));
  }
  FindShared(process, &descriptors);
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  for (OpenDescriptor& descriptor : descriptors) {
    const bool pipe =
        descriptor.kind == DescriptorKind::kPipe || descriptor.kind == DescriptorKind::kFifo;
    if (!pipe || (descriptor.flags & O_ACCMODE) == O_WRONLY || !pidfd.valid()) continue;
    descriptor.unread = UnreadOf(pidfd.get(), descriptor.fd);
  }
  return descriptors;
}

}  // namespace hindsight
