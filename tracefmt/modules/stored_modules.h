// The bytes of modules in a recording being written, by hash, and how many lists name each.
//
// A file is read and hashed when it is taken, a piece at a time, and each piece is written on the
// write queue, before all that is posted there later: what refers to a module comes after its
// bytes.
//
// Not copyable. Any host thread, but for Drop: on the queue.

#ifndef HINDSIGHT_TRACEFMT_MODULES_STORED_MODULES_H_
#define HINDSIGHT_TRACEFMT_MODULES_STORED_MODULES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "tracefmt/modules/module_contents.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/write_queue.h"

namespace hindsight {

class StoredModules {
 public:
  // `directory` is the recording's modules/. The others are borrowed.
  StoredModules(const OutputDirectory& directory, WriteQueue* queue,
                std::atomic<uint64_t>* bytes_written)
      : directory_(directory), queue_(queue), bytes_written_(bytes_written) {}
  StoredModules(const StoredModules&) = delete;
  StoredModules& operator=(const StoredModules&) = delete;

  // The contents of regular file `fd`, whose storing is on the queue by now unless they are larger
  // than `max_bytes`. Written once for all traces, and read once, if the file's times tell that
  // nobody writes to it; else each time. `path` is for messages. If the contents have a hash, the
  // bytes are kept until Drop was called once for each Take.
  absl::StatusOr<std::shared_ptr<const ModuleContents>> Take(const std::string& path, int fd,
                                                             uint64_t max_bytes);
  // The bytes go with the last one who took them.
  absl::Status Drop(const std::string& hash);

 private:
  // Device, inode, size, seconds and nanoseconds of the last change.
  using FileState = std::array<uint64_t, 5>;
  using Piece = std::unique_ptr<uint8_t[]>;
  struct Known {
    std::shared_ptr<const ModuleContents> contents;
    bool settled = false;  // a file in this state has these, and need not be read for that
  };
  // A file of the recording that is being written; gone with this unless it gets its name. On the
  // queue.
  class Output {
   public:
    Output(const OutputDirectory* directory, std::string name)
        : directory_(directory), name_(std::move(name)) {}
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    ~Output();
    absl::Status Write(uint64_t offset, absl::Span<const uint8_t> bytes);
    absl::Status Rename(const std::string& name);

   private:
    const OutputDirectory* const directory_;
    const std::string name_;
    UniqueFd fd_;
  };

  absl::StatusOr<std::shared_ptr<const ModuleContents>> Read(const std::string& path, int fd,
                                                             uint64_t size, uint64_t max_bytes);
  // Whether a file that is in that state, of `size` bytes and opened as `fd`, has these contents.
  absl::StatusOr<bool> Has(const Known& known, const std::string& path, int fd, uint64_t size);
  // Reads the whole file, or as much of it as there is when reading, and has it written to
  // `output`; null: only its size and hash are wanted.
  absl::Status Copy(const std::string& path, int fd, const std::shared_ptr<Output>& output,
                    ModuleContents* contents);
  absl::Status Post(const std::shared_ptr<Output>& output, uint64_t offset, Piece piece,
                    size_t size);
  Piece TakePiece();
  void GiveBack(Piece piece);
  // Has what was copied named by its hash unless the same is or will be there. Counts as a use.
  absl::Status Keep(const std::shared_ptr<Output>& output, const ModuleContents& contents);
  // One more for bytes that are kept. False: they are not.
  bool Use(const std::string& hash);
  void Remember(const FileState& state, Known known);

  const OutputDirectory directory_;
  WriteQueue* const queue_;
  std::atomic<uint64_t>* const bytes_written_;
  std::atomic<uint64_t> unwritten_bytes_ = 0;  // on the queue
  uint64_t outputs_ = 0;                       // so far; by mutex_
  std::mutex pieces_mutex_;
  std::vector<Piece> pieces_;  // for the next ones
  // Held while files are read and the queue is waited for: never on the queue.
  std::mutex mutex_;
  absl::flat_hash_map<FileState, Known> known_;      // by mutex_
  size_t most_known_ = 0;                            // likewise
  std::mutex uses_mutex_;                            // taken last, for moments
  absl::flat_hash_map<std::string, uint64_t> uses_;  // by hash; guarded by uses_mutex_
};

// Lower-case hex XXH3-128.
std::string ContentHash(absl::Span<const uint8_t> bytes);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MODULES_STORED_MODULES_H_
