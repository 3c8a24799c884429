// A file of blocks being written.
//
// Not copyable. Every block reaches the kernel in one piece or not at all: when a write fails half
// way (disk full) the file is cut back to its last whole block. Between blocks the file is closed:
// blocks are few and large, and a recording may have more threads than a process may have files
// open.

#ifndef HINDSIGHT_TRACEFMT_APPEND_FILE_H_
#define HINDSIGHT_TRACEFMT_APPEND_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tracefmt/block.h"

namespace hindsight {

// Writes all of `bytes` to `fd` at `offset`.
absl::Status WriteAll(int fd, const std::string& path, uint64_t offset,
                      absl::Span<const uint8_t> bytes);

class AppendFile {
 public:
  // Makes the file, empty. `bytes_written` is borrowed, and counts what Append added.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Create(const std::string& path,
                                                            std::atomic<uint64_t>* bytes_written);

  const std::string& path() const { return path_; }
  absl::Status Append(BlockKind kind, BlockEncoder* encoder, absl::Span<const uint8_t> raw);
  // Hands the file to the disk, for the few files whose loss would lose the trace.
  absl::Status Sync();

 private:
  AppendFile(std::string path, std::atomic<uint64_t>* bytes_written)
      : path_(std::move(path)), bytes_written_(bytes_written) {}

  std::string path_;
  std::atomic<uint64_t>* bytes_written_;
  uint64_t size_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_APPEND_FILE_H_
