#include "recorder/translate/memo/code_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file_times.h"

namespace hindsight {
namespace {

constexpr uint64_t kPagesAtOnce = 16;
// Who records many processes needs the descriptors otherwise.
constexpr int kLastDescriptor = 255;
constexpr time_t kMomentSeconds = 3;

uint64_t PagesOf(const struct stat& status) {
  return (static_cast<uint64_t>(status.st_size) + kPageBytes - 1) / kPageBytes;
}

bool IsOfSystem(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == 0 && status.st_nlink != 0 &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool IsSame(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

uint8_t* Reserve(uint64_t bytes) {
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : static_cast<uint8_t*>(start);
}

}  // namespace

std::unique_ptr<CodeFile> CodeFile::Open(const std::string& path, ino_t inode) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (!file.valid() || file.get() > kLastDescriptor || fstat(file.get(), &status) != 0) {
    return nullptr;
  }
  const bool usable = status.st_ino == inode && status.st_size > 0 && IsOfSystem(status) &&
                      IsAtRest(status, kMomentSeconds) && TellTimesOfStores(file.get());
  if (!usable) return nullptr;
  std::unique_ptr<CodeFile> code(new CodeFile(std::move(file), status));
  return code->bytes_ == nullptr ? nullptr : std::move(code);
}

CodeFile::CodeFile(UniqueFd file, const struct stat& status)
    : file_(std::move(file)),
      status_(status),
      bytes_(Reserve(PagesOf(status) * kPageBytes)),
      read_(PagesOf(status)) {}

CodeFile::~CodeFile() {
  if (bytes_ != nullptr) munmap(bytes_, PagesOf(status_) * kPageBytes);
}

bool CodeFile::Unchanged() const {
  struct stat now;
  return fstat(file_.get(), &now) == 0 && now.st_size == status_.st_size &&
         IsSame(now.st_mtim, status_.st_mtim) && IsSame(now.st_ctim, status_.st_ctim);
}

bool CodeFile::ReadAround(uint64_t number) {
  const uint64_t first = number / kPagesAtOnce * kPagesAtOnce;
  const uint64_t last = std::min<uint64_t>(first + kPagesAtOnce, read_.size());
  const uint64_t start = first * kPageBytes;
  const uint64_t bytes =
      std::min(last * kPageBytes, static_cast<uint64_t>(status_.st_size)) - start;
  const ssize_t got = pread(file_.get(), bytes_ + start, bytes, static_cast<off_t>(start));
  if (got != static_cast<ssize_t>(bytes) || !Unchanged()) return false;
  for (uint64_t i = first; i < last; ++i) read_[i] = true;
  return true;
}

const uint8_t* CodeFile::Page(uint64_t number) {
  if (number >= PagesOf(status_)) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!read_[number] && !ReadAround(number)) return nullptr;
  return bytes_ + number * kPageBytes;
}

std::shared_ptr<CodeFile> CodeFiles::Find(const std::string& root, const MapRegion& region) {
  const bool is_file = region.inode != 0 && !region.shared && !region.name.empty() &&
                       region.name[0] == '/' && (region.protection & PROT_WRITE) == 0;
  if (!is_file || ended()) return nullptr;
  const Key key(region.device_major, region.device_minor, region.inode, region.name);
  const std::lock_guard<std::mutex> lock(mutex_);
  // Others need descriptors, too.
  if (files_.size() >= kMost && !files_.contains(key)) return nullptr;
  std::shared_ptr<CodeFile>& known = files_[key];
  if (known == nullptr || !known->Unchanged()) {
    known = CodeFile::Open(root + region.name, region.inode);
  }
  return known;
}

void CodeFiles::EndAll() { ended_.store(true, std::memory_order_relaxed); }

}  // namespace hindsight
