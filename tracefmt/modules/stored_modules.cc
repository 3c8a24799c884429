#include "tracefmt/modules/stored_modules.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/build_id.h"

namespace hindsight {
namespace {

// Of files that have been read and are still to be written: more wait.
constexpr uint64_t kMaxUnwrittenBytes = 128 << 20;
// Files remembered before those are looked for that are of no use any more.
constexpr size_t kLeastKnown = 256;

std::vector<PageIndex::Hash> PageHashes(absl::Span<const uint8_t> bytes) {
  std::vector<PageIndex::Hash> hashes;
  uint8_t last[kPageBytes];
  for (uint64_t offset = 0; offset < bytes.size(); offset += kPageBytes) {
    absl::Span<const uint8_t> page = bytes.subspan(offset, kPageBytes);
    if (page.size() < kPageBytes) {  // in memory, zeros follow the end of a file
      std::memset(last, 0, sizeof(last));
      std::memcpy(last, page.data(), page.size());
      page = last;
    }
    hashes.push_back(PageIndex::HashOf(page));
  }
  return hashes;
}

}  // namespace

std::string ContentHash(absl::Span<const uint8_t> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

absl::StatusOr<std::shared_ptr<const ModuleContents>> StoredModules::Take(const std::string& path,
                                                                          int fd,
                                                                          uint64_t max_bytes) {
  struct stat status;
  if (fstat(fd, &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  const FileState state = {status.st_dev, status.st_ino, size,
                           static_cast<uint64_t>(status.st_mtim.tv_sec),
                           static_cast<uint64_t>(status.st_mtim.tv_nsec)};
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = known_.find(state);
  if (known != known_.end() && size <= max_bytes && Use(known->second->hash)) return known->second;
  ASSIGN_OR_RETURN(auto contents, Read(path, fd, size, max_bytes));
  if (!contents->hash.empty()) Remember(state, contents);
  return contents;
}

bool StoredModules::Use(const std::string& hash) {
  const std::lock_guard<std::mutex> lock(uses_mutex_);
  const auto uses = uses_.find(hash);
  if (uses == uses_.end()) return false;
  ++uses->second;
  return true;
}

// One file for each of the contents that are kept is enough.
void StoredModules::Remember(const FileState& state,
                             std::shared_ptr<const ModuleContents> contents) {
  if (known_.size() >= std::max(most_known_, kLeastKnown)) {
    const std::lock_guard<std::mutex> lock(uses_mutex_);
    absl::flat_hash_set<std::string> seen;
    absl::erase_if(known_, [&](const auto& one) {
      return !uses_.contains(one.second->hash) || !seen.insert(one.second->hash).second;
    });
    most_known_ = 2 * known_.size();
  }
  known_[state] = std::move(contents);
}

// The whole file, or as much of it as there is when reading. Read, not mapped: a file that shrinks
// meanwhile must not kill the recorder.
absl::StatusOr<StoredModules::FileBytes> StoredModules::ReadFile(int fd, const std::string& path,
                                                                 uint64_t size) {
  FileBytes bytes = {.storage = std::make_unique_for_overwrite<uint8_t[]>(size)};
  while (bytes.size < size) {
    const ssize_t got = pread(fd, bytes.storage.get() + bytes.size, size - bytes.size,
                              static_cast<off_t>(bytes.size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) break;
    bytes.size += static_cast<size_t>(got);
  }
  return bytes;
}

absl::StatusOr<std::shared_ptr<const ModuleContents>> StoredModules::Read(const std::string& path,
                                                                          int fd, uint64_t size,
                                                                          uint64_t max_bytes) {
  auto contents = std::make_shared<ModuleContents>();
  contents->size_bytes = size;
  contents->build_id = ReadBuildId(fd);
  if (size > max_bytes) return contents;
  ASSIGN_OR_RETURN(FileBytes bytes, ReadFile(fd, path, size));
  contents->size_bytes = bytes.size;
  contents->hash = ContentHash(bytes.span());
  contents->pages = PageHashes(bytes.span());
  RETURN_IF_ERROR(Store(contents->hash, std::move(bytes)));
  return contents;
}

absl::Status StoredModules::Store(const std::string& hash, FileBytes bytes) {
  {
    const std::lock_guard<std::mutex> lock(uses_mutex_);
    if (++uses_[hash] > 1) return absl::OkStatus();
  }
  if (unwritten_bytes_ + bytes.size > kMaxUnwrittenBytes) RETURN_IF_ERROR(queue_->Drain());
  unwritten_bytes_ += bytes.size;
  const auto shared = std::make_shared<const FileBytes>(std::move(bytes));
  return queue_->Post([this, hash, shared] {
    unwritten_bytes_ -= shared->size;
    return Write(hash, shared->span());
  });
}

absl::Status StoredModules::Write(const std::string& hash, absl::Span<const uint8_t> bytes) {
  const std::string next = hash + ".tmp";
  ASSIGN_OR_RETURN(const UniqueFd fd, directory_.CreateFile(next));
  absl::Status written = WriteAll(fd.get(), directory_.PathOf(next), 0, bytes);
  if (written.ok()) written = directory_.Rename(next, hash);
  if (!written.ok()) {
    directory_.Remove(next);
    return written;
  }
  bytes_written_->fetch_add(bytes.size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

// Whoever takes them from here on has them written again, later on the queue.
absl::Status StoredModules::Drop(const std::string& hash) {
  {
    const std::lock_guard<std::mutex> lock(uses_mutex_);
    const auto uses = uses_.find(hash);
    if (uses == uses_.end()) return absl::InternalError(absl::StrCat("module ", hash));
    if (--uses->second > 0) return absl::OkStatus();
    uses_.erase(uses);
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, directory_.Delete(hash));
  bytes_written_->fetch_sub(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace hindsight
