#include "recorder/translate/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace hindsight {

namespace {

// Whether it is one that has just been made for this. In a PID namespace of its own a process does
// not know its number: what that is the number of here has files that must not be touched.
bool IsNew(const std::string& path, int file) {
  std::error_code error;
  const std::string name = std::filesystem::read_symlink(path, error).string();
  struct stat status;
  return !error && name.rfind("/memfd:hindsight", 0) == 0 && fstat(file, &status) == 0 &&
         status.st_size == 0;
}

}  // namespace

absl::StatusOr<MemoryFile> MemoryFile::Open(pid_t process, int fd) {
  const std::string path = absl::StrCat("/proc/", process, "/fd/", fd);
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
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
  return MemoryFile(static_cast<uint8_t*>(base));
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}

MemoryFile::~MemoryFile() {
  if (base_ != nullptr) munmap(base_, kFileBytes);
}

uint8_t* MemoryFile::code(uint64_t address) const {
  if (address - kLibraryArena < kArenaBytes) {
    return base_ + kLibraryArenaInFile + (address - kLibraryArena);
  }
  return base_ + kPieArenaInFile + (address - kPieArena);
}

}  // namespace hindsight
