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
#include "base/file_times.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/build_id.h"

namespace hindsight {
namespace {

// Of files that have been read and are still to be written: more wait.
constexpr uint64_t kMaxUnwrittenBytes = 128 << 20;
// Files remembered before those are looked for that are of no use any more.
constexpr size_t kLeastKnown = 256;

// A multiple of the page size. What holds one is used again and again: new memory takes longer than
// reading a file into it.
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kKeptPieces = 16;

std::string HashText(const XXH128_hash_t& hash) {
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

// Whether its times tell when the file is written to from now on, also by way of mappings: a linker
// may write a program so, and lets it be before it has it executed.
bool IsSettled(int fd, const struct stat& file, bool elf) {
  constexpr time_t kLinkedSeconds = 3;
  return elf ? IsAtRest(file, kLinkedSeconds)
             : IsAtRest(file, kNoStoresSeconds) && TellTimesOfStores(fd);
}

// Up to `size` bytes, less where the file ends.
absl::StatusOr<size_t> ReadAt(int fd, const std::string& path, uint64_t offset, uint8_t* to,
                              size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

struct HashStateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

std::string ContentHash(absl::Span<const uint8_t> bytes) {
  return HashText(XXH3_128bits(bytes.data(), bytes.size()));
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
  if (const auto known = known_.find(state); known != known_.end() && size <= max_bytes) {
    ASSIGN_OR_RETURN(const bool has, Has(known->second, path, fd, size));
    if (has && Use(known->second.contents->hash)) return known->second.contents;
  }
  ASSIGN_OR_RETURN(auto contents, Read(path, fd, size, max_bytes));
  if (!contents->hash.empty()) {
    Remember(state, {contents, IsSettled(fd, status, contents->elf)});
  }
  return contents;
}

absl::StatusOr<bool> StoredModules::Has(const Known& known, const std::string& path, int fd,
                                        uint64_t size) {
  if (known.settled) return true;
  ModuleContents now = {.size_bytes = size};
  RETURN_IF_ERROR(Copy(path, fd, nullptr, &now));
  return now.hash == known.contents->hash;
}

bool StoredModules::Use(const std::string& hash) {
  const std::lock_guard<std::mutex> lock(uses_mutex_);
  const auto uses = uses_.find(hash);
  if (uses == uses_.end()) return false;
  ++uses->second;
  return true;
}

// One file for each of the contents that are kept is enough.
void StoredModules::Remember(const FileState& state, Known known) {
  if (known_.size() >= std::max(most_known_, kLeastKnown)) {
    const std::lock_guard<std::mutex> lock(uses_mutex_);
    absl::flat_hash_set<std::string> seen;
    absl::erase_if(known_, [&](const auto& one) {
      const std::string& hash = one.second.contents->hash;
      return !uses_.contains(hash) || !seen.insert(hash).second;
    });
    most_known_ = 2 * known_.size();
  }
  known_[state] = std::move(known);
}

absl::StatusOr<std::shared_ptr<const ModuleContents>> StoredModules::Read(const std::string& path,
                                                                          int fd, uint64_t size,
                                                                          uint64_t max_bytes) {
  auto contents = std::make_shared<ModuleContents>();
  contents->size_bytes = size;
  contents->build_id = ReadBuildId(fd);
  if (size > max_bytes) return contents;
  const auto output =
      std::make_shared<Output>(&directory_, absl::StrCat("next", outputs_++, ".tmp"));
  const absl::Status copied = Copy(path, fd, output, contents.get());
  if (!copied.ok()) {
    RETURN_IF_ERROR(queue_->Post([output] { return absl::OkStatus(); }));  // the last that has it
    return copied;
  }
  RETURN_IF_ERROR(Keep(output, *contents));
  return contents;
}

StoredModules::Output::~Output() {
  if (fd_.valid()) directory_->Remove(name_);
}

absl::Status StoredModules::Output::Write(uint64_t offset, absl::Span<const uint8_t> bytes) {
  if (!fd_.valid()) {
    ASSIGN_OR_RETURN(fd_, directory_->CreateFile(name_));
  }
  return WriteAll(fd_.get(), directory_->PathOf(name_), offset, bytes);
}

absl::Status StoredModules::Output::Rename(const std::string& name) {
  RETURN_IF_ERROR(directory_->Rename(name_, name));
  fd_ = {};
  return absl::OkStatus();
}

// Read, not mapped: a file that shrinks meanwhile must not kill the recorder.
absl::Status StoredModules::Copy(const std::string& path, int fd,
                                 const std::shared_ptr<Output>& output, ModuleContents* contents) {
  const std::unique_ptr<XXH3_state_t, HashStateDeleter> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  const uint64_t wanted = std::exchange(contents->size_bytes, 0);
  bool ends = false;
  do {
    Piece piece = TakePiece();
    const uint64_t offset = contents->size_bytes;
    const size_t most = std::min<uint64_t>(kPieceBytes, wanted - offset);
    ASSIGN_OR_RETURN(const size_t size, ReadAt(fd, path, offset, piece.get(), most));
    XXH3_128bits_update(state.get(), piece.get(), size);
    contents->size_bytes += size;
    ends = size < most || contents->size_bytes == wanted;
    if (output == nullptr) {
      GiveBack(std::move(piece));
      continue;
    }
    contents->AddPages({piece.get(), size});
    RETURN_IF_ERROR(Post(output, offset, std::move(piece), size));
  } while (!ends);
  contents->hash = HashText(XXH3_128bits_digest(state.get()));
  return absl::OkStatus();
}

absl::Status StoredModules::Post(const std::shared_ptr<Output>& output, uint64_t offset,
                                 Piece piece, size_t size) {
  if (unwritten_bytes_ + size > kMaxUnwrittenBytes) RETURN_IF_ERROR(queue_->Drain());
  unwritten_bytes_ += size;
  const auto shared = std::make_shared<Piece>(std::move(piece));
  return queue_->Post([this, output, offset, shared, size] {
    unwritten_bytes_ -= size;
    const absl::Status written = output->Write(offset, {shared->get(), size});
    GiveBack(std::move(*shared));
    return written;
  });
}

StoredModules::Piece StoredModules::TakePiece() {
  const std::lock_guard<std::mutex> lock(pieces_mutex_);
  if (pieces_.empty()) return std::make_unique_for_overwrite<uint8_t[]>(kPieceBytes);
  Piece piece = std::move(pieces_.back());
  pieces_.pop_back();
  return piece;
}

void StoredModules::GiveBack(Piece piece) {
  const std::lock_guard<std::mutex> lock(pieces_mutex_);
  if (pieces_.size() < kKeptPieces) pieces_.push_back(std::move(piece));
}

absl::Status StoredModules::Keep(const std::shared_ptr<Output>& output,
                                 const ModuleContents& contents) {
  bool first;
  {
    const std::lock_guard<std::mutex> lock(uses_mutex_);
    first = ++uses_[contents.hash] == 1;
  }
  if (!first) return queue_->Post([output] { return absl::OkStatus(); });
  return queue_->Post([this, output, hash = contents.hash, size = contents.size_bytes] {
    RETURN_IF_ERROR(output->Rename(hash));
    bytes_written_->fetch_add(size, std::memory_order_relaxed);
    return absl::OkStatus();
  });
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
