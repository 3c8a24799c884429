#include "recorder/translate/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "recorder/process/pid_namespace.h"

namespace hindsight {

namespace {

std::string PathOf(pid_t process, int fd) { return absl::StrCat("/proc/", process, "/fd/", fd); }

bool IsMemoryFile(const std::string& path) {
  std::error_code error;
  const std::string name = std::filesystem::read_symlink(path, error).string();
  return !error && name.rfind("/memfd:hindsight", 0) == 0;
}

// Who records many processes needs the descriptors otherwise.
UniqueFd KeepIfFew(UniqueFd file) {
  constexpr int kLastKept = 255;
  return file.get() <= kLastKept ? std::move(file) : UniqueFd();
}

// Whether it is one that has just been made for this: files of others must not be touched.
bool IsNew(const std::string& path, int file) {
  struct stat status;
  return IsMemoryFile(path) && fstat(file, &status) == 0 && status.st_size == 0;
}

}  // namespace

bool MemoryFile::IsAt(pid_t process, int fd, uint64_t inode) {
  const std::string path = PathOf(process, fd);
  struct stat status;
  return IsMemoryFile(path) && stat(path.c_str(), &status) == 0 && status.st_ino == inode;
}

absl::StatusOr<MemoryFile> MemoryFile::Open(pid_t process, int fd) {
  const std::string path = PathOf(process, fd);
  UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  if (!IsNew(path, file.get())) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no new memory file"));
  }
  if (ftruncate(file.get(), kFileBytes) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("ftruncate: ", strerror(errno)));
  }
  void* base =
      mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("mmap: ", strerror(errno)));
  }
  MemoryFile memory(KeepIfFew(std::move(file)), static_cast<uint8_t*>(base));
  memory.control()->recorder_process = IsInOurPidNamespace(process) ? getpid() : 0;
  return memory;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : file_(std::move(other.file_)),
      base_(std::exchange(other.base_, nullptr)),
      map_reads_(std::move(other.map_reads_)) {}

MemoryFile::~MemoryFile() {
  if (base_ != nullptr) munmap(base_, kFileBytes);
}

uint64_t MemoryFile::InFile(uint64_t address) {
  if (address - kLibraryArena < kArenaBytes) return kLibraryArenaInFile + (address - kLibraryArena);
  return kPieArenaInFile + (address - kPieArena);
}

uint8_t* MemoryFile::code(uint64_t address) const { return base_ + InFile(address); }

void MemoryFile::Write(uint64_t in_file, absl::Span<const uint8_t> bytes) {
  const auto at = static_cast<off_t>(in_file);
  if (file_.valid() &&
      pwrite(file_.get(), bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size())) {
    return;
  }
  std::copy(bytes.begin(), bytes.end(), base_ + in_file);
}

std::vector<MemoryFile::FilePiece> MemoryFile::CodePieces() const {
  std::vector<FilePiece> pieces;
  constexpr off_t kEnd = kRingsInFile;
  off_t at = kBlockMapInFile;
  while (true) {
    const off_t start = lseek(file_.get(), at, SEEK_DATA);
    if (start < 0 || start >= kEnd) return pieces;
    at = std::min(lseek(file_.get(), start, SEEK_HOLE), kEnd);
    if (at <= start) return pieces;
    pieces.push_back({start, at});
  }
}

bool MemoryFile::CopyCode(const MemoryFile& other) {
  // Who needs little of so much takes it faster page by page.
  constexpr off_t kMostBytes = 8 * kMiB;
  if (!file_.valid() || !other.file_.valid()) return false;
  const std::vector<FilePiece> pieces = other.CodePieces();
  off_t bytes = 0;
  for (const FilePiece& piece : pieces) bytes += piece.end - piece.start;
  if (bytes > kMostBytes) return false;
  for (const FilePiece& piece : pieces) {
    const auto size = static_cast<size_t>(piece.end - piece.start);
    const ssize_t written = pwrite(file_.get(), other.base_ + piece.start, size, piece.start);
    if (written == static_cast<ssize_t>(size)) continue;
    // The program would find in the map what nobody knows of.
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kBlockMapInFile,
              kRingsInFile - kBlockMapInFile);
    return false;
  }
  return true;
}

}  // namespace hindsight
