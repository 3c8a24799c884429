// A file of blocks being written.
//
// Not copyable. Every block reaches the kernel in one piece or not at all: when a write fails half
// way (disk full) the file is cut back to its last whole block. Between blocks the file may be
// closed: a recording may have more threads than a process may have files open.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_APPEND_FILE_H_
#define HINDSIGHT_TRACEFMT_STORAGE_APPEND_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/late_sync.h"
#include "tracefmt/storage/output_directory.h"

namespace hindsight {

// Writes all of `bytes` to `fd` at `offset`.
absl::Status WriteAll(int fd, const std::string& path, uint64_t offset,
                      absl::Span<const uint8_t> bytes);

class AppendFile {
 public:
  // Makes the file `name` of `directory`, empty. `bytes_written` is borrowed, and counts what
  // Append added.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Create(const OutputDirectory& directory,
                                                            const std::string& name,
                                                            std::atomic<uint64_t>* bytes_written);

  absl::Status Append(BlockKind kind, BlockEncoder* encoder, absl::Span<const uint8_t> raw);
  // The same of a block that has been compressed.
  absl::Status Append(std::vector<uint8_t> block);
  // The same of the block at the beginning of the file `name` of the same directory.
  absl::Status AppendFirstOf(const std::string& name);
  // Puts another file in its place, at once: block `raw`, then the blocks of this one from `offset`
  // on. What is gone no longer counts as written.
  absl::Status DropBefore(uint64_t offset, BlockKind kind, BlockEncoder* encoder,
                          absl::Span<const uint8_t> raw);
  uint64_t size() const { return size_; }
  // Hands the file to the disk, for the few files whose loss would lose the trace: before it
  // returns, or soon after with `late`.
  absl::Status Sync(LateSync* late);

 private:
  absl::Status AppendPlaced(absl::Span<const uint8_t> block);

  AppendFile(const OutputDirectory& directory, std::string name,
             std::atomic<uint64_t>* bytes_written)
      : directory_(directory), name_(std::move(name)), bytes_written_(bytes_written) {}

  const OutputDirectory directory_;
  const std::string name_;
  std::atomic<uint64_t>* bytes_written_;
  uint64_t size_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_APPEND_FILE_H_
