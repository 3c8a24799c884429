// The modules of a trace being written: their list, and their bytes, once for all traces of the
// recording.
//
// A file is read and hashed when it is added, and written on the write queue, before all that is
// posted there later: what refers to a module comes after its bytes.
//
// A ModuleStore: one host thread at a time. StoredModules: any.

#ifndef HINDSIGHT_TRACEFMT_MODULE_STORE_H_
#define HINDSIGHT_TRACEFMT_MODULE_STORE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/page_index.h"
#include "tracefmt/storage/write_queue.h"

namespace hindsight {

// What is known of a file's bytes.
struct ModuleContents {
  uint64_t size_bytes = 0;
  std::string hash;  // empty: too large to be stored
  std::string build_id;
  std::vector<PageIndex::Hash> pages;
};

// The bytes of modules in a recording, by hash.
class StoredModules {
 public:
  // `directory` is the recording's modules/. The others are borrowed.
  StoredModules(const OutputDirectory& directory, WriteQueue* queue,
                std::atomic<uint64_t>* bytes_written)
      : directory_(directory), queue_(queue), bytes_written_(bytes_written) {}

  // The contents of regular file `fd`, whose storing is on the queue by now unless they are larger
  // than `max_bytes`. Read once for all traces, as long as the file is not written to. `path` is
  // for messages.
  absl::StatusOr<std::shared_ptr<const ModuleContents>> Take(const std::string& path, int fd,
                                                             uint64_t max_bytes);

 private:
  // Device, inode, size, seconds and nanoseconds of the last change.
  using FileState = std::array<uint64_t, 5>;
  struct FileBytes {
    std::unique_ptr<uint8_t[]> storage;
    size_t size = 0;
    absl::Span<const uint8_t> span() const { return {storage.get(), size}; }
  };

  static absl::StatusOr<FileBytes> ReadFile(int fd, const std::string& path, uint64_t size);
  absl::StatusOr<std::shared_ptr<const ModuleContents>> Read(const std::string& path, int fd,
                                                             uint64_t size, uint64_t max_bytes);
  // Has the file named by its hash written unless it is or will be there.
  absl::Status Store(const std::string& hash, FileBytes bytes);
  absl::Status Write(const std::string& hash, absl::Span<const uint8_t> bytes);

  const OutputDirectory directory_;
  WriteQueue* const queue_;
  std::atomic<uint64_t>* const bytes_written_;
  std::atomic<uint64_t> unwritten_bytes_ = 0;  // on the queue
  std::mutex mutex_;                           // for all that follows
  absl::flat_hash_set<std::string> hashes_;
  absl::flat_hash_map<FileState, std::shared_ptr<const ModuleContents>> known_;
};

class ModuleStore {
 public:
  // `directory` is the trace's modules/, which exists. The others are borrowed; `pages` gets the
  // pages of every module stored, `encoder` is used on the queue.
  static absl::StatusOr<std::unique_ptr<ModuleStore>> Create(
      const OutputDirectory& directory, StoredModules* stored, WriteQueue* queue,
      BlockEncoder* encoder, PageIndex* pages, std::atomic<uint64_t>* bytes_written);

  // As TraceWriter::AddModule. A file that cannot be read is kNotFound or the like and changes
  // nothing; what is wrong with the trace's own files is the queue's status.
  absl::StatusOr<int32_t> Add(const std::string& path, int fd, uint64_t max_bytes);

  // Modules listed.
  size_t size() const { return modules_.size(); }
  // Whether module `index` exists and its bytes are stored.
  bool IsStored(int32_t index) const {
    return index >= 0 && static_cast<size_t>(index) < modules_.size() && modules_[index].stored;
  }

 private:
  ModuleStore(StoredModules* stored, WriteQueue* queue, std::unique_ptr<AppendFile> list,
              BlockEncoder* encoder, PageIndex* pages)
      : stored_(stored), queue_(queue), list_(std::move(list)), encoder_(encoder), pages_(pages) {}

  absl::Status AppendToList(const Module& module);
  void IndexPages(int32_t index, const ModuleContents& contents);

  StoredModules* stored_;
  WriteQueue* queue_;
  std::unique_ptr<AppendFile> list_;
  BlockEncoder* encoder_;
  PageIndex* pages_;
  std::vector<Module> modules_;
  absl::flat_hash_map<std::string, int32_t> by_identity_;  // path, hash, size
  absl::flat_hash_map<std::string, int32_t> by_hash_;      // the first with these bytes
};

// Lower-case hex XXH3-128.
std::string ContentHash(absl::Span<const uint8_t> bytes);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MODULE_STORE_H_
