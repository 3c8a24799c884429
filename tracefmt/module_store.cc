#include "tracefmt/module_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tracefmt/storage/build_id.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

// Of files that have been read and are still to be written: more wait.
constexpr uint64_t kMaxUnwrittenBytes = 128 << 20;

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

absl::StatusOr<std::unique_ptr<ModuleStore>> ModuleStore::Create(
    const OutputDirectory& directory, StoredModules* stored, WriteQueue* queue,
    BlockEncoder* encoder, PageIndex* pages, std::atomic<uint64_t>* bytes_written) {
  ASSIGN_OR_RETURN(auto list, AppendFile::Create(directory, "list", bytes_written));
  return std::unique_ptr<ModuleStore>(
      new ModuleStore(stored, queue, std::move(list), encoder, pages));
}

absl::StatusOr<int32_t> ModuleStore::Add(const std::string& path, int fd, uint64_t max_bytes) {
  UniqueFd opened;
  if (fd < 0) {
    opened.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened.valid()) return absl::ErrnoToStatus(errno, path);
    fd = opened.get();
  }
  ASSIGN_OR_RETURN(const auto contents, stored_->Take(path, fd, max_bytes));
  Module module;
  module.path = path;
  module.size_bytes = contents->size_bytes;
  module.hash = contents->hash;
  module.build_id = contents->build_id;
  module.stored = !module.hash.empty();
  const std::string identity = absl::StrCat(path, "\n", module.hash, "\n", module.size_bytes);
  if (const auto known = by_identity_.find(identity); known != by_identity_.end()) {
    return known->second;
  }
  // The bytes have come first: a reader that finds the module in the list can read them.
  RETURN_IF_ERROR(queue_->Post([this, module] { return AppendToList(module); }));
  const int32_t index = static_cast<int32_t>(modules_.size());
  by_identity_.emplace(identity, index);
  if (module.stored && by_hash_.emplace(module.hash, index).second) IndexPages(index, *contents);
  modules_.push_back(std::move(module));
  return index;
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
  if (known != known_.end() && known->second->hash.empty() == (size > max_bytes)) {
    return known->second;
  }
  ASSIGN_OR_RETURN(auto contents, Read(path, fd, size, max_bytes));
  known_[state] = contents;
  return contents;
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
  if (!hashes_.insert(hash).second) return absl::OkStatus();
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

absl::Status ModuleStore::AppendToList(const Module& module) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<wire::ModuleList>().initModules(1)[0];
  to.setPath(AsData(module.path));
  to.setBuildId(AsData(module.build_id));
  to.setHash(AsData(module.hash));
  to.setSizeBytes(module.size_bytes);
  to.setStored(module.stored);
  return AppendMessage(list_.get(), BlockKind::kModules, encoder_, message);
}

void ModuleStore::IndexPages(int32_t index, const ModuleContents& contents) {
  uint64_t offset = 0;
  for (const PageIndex::Hash& hash : contents.pages) {
    pages_->Add(hash, {PageSourceKind::kModule, static_cast<uint32_t>(index), offset});
    offset += kPageBytes;
  }
}

}  // namespace hindsight
