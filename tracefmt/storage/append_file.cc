#include "tracefmt/storage/append_file.h"

#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace hindsight {

absl::Status WriteAll(int fd, const std::string& path, uint64_t offset,
                      absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": offset ", offset));
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

namespace {

absl::Status ReadAll(int fd, const std::string& path, uint64_t offset, absl::Span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": offset ", offset));
    if (got == 0) return absl::DataLossError(absl::StrCat(path, ": is cut short"));
    out.remove_prefix(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

// The whole block at `offset`, changed to one for the place `to`.
absl::Status ReadMoved(int fd, const std::string& path, uint64_t offset, uint64_t to,
                       std::vector<uint8_t>* block) {
  block->resize(kBlockHeaderBytes);
  RETURN_IF_ERROR(ReadAll(fd, path, offset, absl::MakeSpan(*block)));
  block->resize(MoveBlock(absl::MakeSpan(*block), to));
  if (block->size() < kBlockHeaderBytes) {
    return absl::DataLossError(absl::StrCat(path, ": offset ", offset));
  }
  return ReadAll(fd, path, offset + kBlockHeaderBytes,
                 absl::MakeSpan(*block).subspan(kBlockHeaderBytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Create(
    const OutputDirectory& directory, const std::string& name,
    std::atomic<uint64_t>* bytes_written) {
  RETURN_IF_ERROR(directory.CreateFile(name).status());
  return std::unique_ptr<AppendFile>(new AppendFile(directory, name, bytes_written));
}

absl::Status AppendFile::Append(BlockKind kind, BlockEncoder* encoder,
                                absl::Span<const uint8_t> raw) {
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> block, encoder->Encode(kind, raw, size_));
  return AppendPlaced(block);
}

absl::Status AppendFile::Append(std::vector<uint8_t> block) {
  BlockEncoder::Place(size_, &block);
  return AppendPlaced(block);
}

absl::Status AppendFile::AppendFirstOf(const std::string& name) {
  ASSIGN_OR_RETURN(const UniqueFd from, directory_.OpenFile(name));
  std::vector<uint8_t> block;
  RETURN_IF_ERROR(ReadMoved(from.get(), directory_.PathOf(name), 0, size_, &block));
  return AppendPlaced(block);
}

absl::Status AppendFile::AppendPlaced(absl::Span<const uint8_t> block) {
  ASSIGN_OR_RETURN(const RecentFiles::File file, directory_.OpenRecent(name_));
  absl::Status written = WriteAll(file->get(), directory_.PathOf(name_), size_, block);
  if (!written.ok()) {
    // Readers also cope with a torn block, so it does not matter whether this succeeds.
    (void)!ftruncate(file->get(), static_cast<off_t>(size_));
    return written;
  }
  size_ += block.size();
  bytes_written_->fetch_add(block.size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status AppendFile::DropBefore(uint64_t offset, BlockKind kind, BlockEncoder* encoder,
                                    absl::Span<const uint8_t> raw) {
  const std::string next = name_ + ".tmp";
  const uint64_t old_size = size_;
  directory_.Remove(next);
  ASSIGN_OR_RETURN(const UniqueFd from, directory_.OpenFile(name_));
  ASSIGN_OR_RETURN(const UniqueFd to, directory_.CreateFile(next));
  const std::string path = directory_.PathOf(next);
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> first, encoder->Encode(kind, raw, 0));
  uint64_t size = first.size();
  absl::Status copied = WriteAll(to.get(), path, 0, first);
  std::vector<uint8_t> block;
  while (copied.ok() && offset < old_size) {
    copied = ReadMoved(from.get(), directory_.PathOf(name_), offset, size, &block);
    if (copied.ok()) copied = WriteAll(to.get(), path, size, block);
    offset += block.size();
    size += block.size();
  }
  if (copied.ok()) copied = directory_.Rename(next, name_);
  if (!copied.ok()) {
    directory_.Remove(next);
    return copied;
  }
  bytes_written_->fetch_add(size - old_size, std::memory_order_relaxed);
  size_ = size;
  return absl::OkStatus();
}

absl::Status AppendFile::Sync(LateSync* late) {
  ASSIGN_OR_RETURN(UniqueFd fd, directory_.OpenFile(name_));
  if (late != nullptr) {
    late->Add(std::move(fd));
  } else if (fdatasync(fd.get()) != 0)
    return absl::ErrnoToStatus(errno, directory_.PathOf(name_));
  return absl::OkStatus();
}

}  // namespace hindsight
