#include "tracefmt/storage/trace_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tracefmt/storage/open_beneath.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
// Not blocking: a named pipe in the place of a file must not hang the reader.
constexpr int kFileFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
// Deeper than any trace; bounds what a hostile tree of directories costs.
constexpr int kMaxDepth = 8;

bool SameFile(int a, int b) {
  struct stat of_a, of_b;
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

std::vector<std::string> NamesIn(UniqueFd directory) {
  std::vector<std::string> names;
  DIR* const stream = directory.valid() ? fdopendir(directory.get()) : nullptr;
  if (stream == nullptr) return names;
  directory.Release();  // closedir closes it
  while (const dirent* entry = readdir(stream)) {
    if (IsOneName(entry->d_name)) names.push_back(entry->d_name);
  }
  closedir(stream);
  return names;
}

uint64_t BytesBelow(int root, const std::string& path, int depth) {
  UniqueFd fd = OpenBeneath(root, path, kFileFlags);
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return 0;
  if (S_ISREG(info.st_mode)) return static_cast<uint64_t>(info.st_size);
  if (!S_ISDIR(info.st_mode) || depth == kMaxDepth) return 0;
  uint64_t bytes = 0;
  for (const std::string& name : NamesIn(std::move(fd))) {
    bytes += BytesBelow(root, absl::StrCat(path, "/", name), depth + 1);
  }
  return bytes;
}

}  // namespace

// Files that stay open, by their paths in the recording.
class TraceDirectory::OpenFiles {
 public:
  OpenFiles(std::vector<std::string> directories, size_t most)
      : directories_(std::move(directories)), most_(most) {}

  // Invalid: it is not one of these.
  UniqueFd Find(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = files_.find(path);
    return found == files_.end() ? UniqueFd() : Duplicate(found->second);
  }
  // `file`: inside of a trace's directory.
  void Keep(const std::string& file, const std::string& path, const UniqueFd& fd) {
    const bool keeps =
        std::any_of(directories_.begin(), directories_.end(),
                    [&](const std::string& one) { return absl::StartsWith(file, one); });
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!keeps || files_.size() >= most_) return;
    if (UniqueFd kept = Duplicate(fd); kept.valid()) files_.try_emplace(path, std::move(kept));
  }

 private:
  static UniqueFd Duplicate(const UniqueFd& fd) {
    return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  }

  const std::vector<std::string> directories_;
  const size_t most_;
  std::mutex mutex_;
  std::map<std::string, UniqueFd> files_;  // guarded by mutex_
};

absl::StatusOr<TraceDirectory> TraceDirectory::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), kDirectoryFlags));
  if (!fd.valid()) {
    const std::string manifest = path + "/manifest";
    if (errno != ENOENT) return absl::ErrnoToStatus(errno, manifest);
    return absl::NotFoundError(absl::StrCat(manifest, ": no such file; not a Hindsight trace"));
  }
  TraceDirectory directory;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) directory.most_open_ = limit.rlim_cur;
  directory.path_ = path;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (!error && real.parent_path().filename() == kProcessesDirectory) {
    // A child's trace, if a recording lies around it.
    const fs::path recording = real.parent_path().parent_path();
    UniqueFd root(open(recording.c_str(), kDirectoryFlags));
    TraceDirectory child = directory;
    child.root_path_ = recording.string();
    child.name_ = real.filename().string();
    const UniqueFd again = OpenBeneath(root.get(), child.RelativePath(""), kDirectoryFlags);
    const bool is_recording = OpenBeneath(root.get(), "manifest", kFileFlags).valid();
    if (is_recording && again.valid() && SameFile(again.get(), fd.get())) {
      child.root_ = std::make_shared<const UniqueFd>(std::move(root));
      return child;
    }
  }
  directory.root_path_ = path;
  directory.root_ = std::make_shared<const UniqueFd>(std::move(fd));
  return directory;
}

TraceDirectory TraceDirectory::Recording() const {
  TraceDirectory recording = *this;
  recording.path_ = root_path_;
  recording.name_.clear();
  return recording;
}

absl::StatusOr<TraceDirectory> TraceDirectory::Process(const std::string& name) const {
  if (!IsOneName(name)) {
    return absl::DataLossError(
        absl::StrCat(path_, ": no process of the recording can be named \"", name, "\""));
  }
  TraceDirectory process = *this;
  process.path_ = absl::StrCat(root_path_, "/", kProcessesDirectory, "/", name);
  process.name_ = name;
  return process;
}

absl::StatusOr<TraceDirectory> TraceDirectory::Parent(const std::string& parent) const {
  absl::string_view name = parent;
  if (name_.empty() || !absl::ConsumePrefix(&name, "../")) {
    return absl::DataLossError(
        absl::StrCat(path_, ": \"", parent, "\" can be no process of the recording"));
  }
  return name == ".." ? Recording() : Process(std::string(name));
}

std::vector<std::string> TraceDirectory::ProcessNames() const {
  return Recording().Entries(kProcessesDirectory);
}

std::string TraceDirectory::RelativePath(const std::string& file) const {
  if (name_.empty()) return file;
  return absl::StrCat(kProcessesDirectory, "/", name_, file.empty() ? "" : "/", file);
}

absl::StatusOr<UniqueFd> TraceDirectory::OpenFile(const std::string& file) const {
  if (root_ == nullptr) return absl::NotFoundError("no trace");
  const std::string path = RelativePath(file);
  if (kept_ != nullptr) {
    if (UniqueFd kept = kept_->Find(path); kept.valid()) return kept;
  }
  UniqueFd fd = OpenBeneath(root_->get(), path, kFileFlags);
  if (!fd.valid()) return absl::ErrnoToStatus(errno, PathOf(file));
  if (kept_ != nullptr) kept_->Keep(file, path, fd);
  return fd;
}

TraceDirectory TraceDirectory::KeepingOpen(std::vector<std::string> directories,
                                           size_t most) const {
  TraceDirectory keeping = *this;
  keeping.kept_ = std::make_shared<OpenFiles>(std::move(directories), most);
  return keeping;
}

std::vector<std::string> TraceDirectory::Entries(const std::string& directory) const {
  if (root_ == nullptr) return {};
  return NamesIn(OpenBeneath(root_->get(), RelativePath(directory), kDirectoryFlags));
}

uint64_t TraceDirectory::BytesUnder(const std::string& directory) const {
  return root_ == nullptr ? 0 : BytesBelow(root_->get(), RelativePath(directory), 0);
}

}  // namespace hindsight
