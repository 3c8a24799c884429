// Code as it is in the system's own files, for all processes of a recording that map it: read once,
// and not from each of them.
//
// That a process still has there what its file has is for who asks to find out.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_CODE_FILE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_CODE_FILE_H_

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/unique_fd.h"
#include "tracefmt/records.h"

namespace hindsight {

// Not copyable. Any host thread.
class CodeFile {
 public:
  // Null: the file's times do not tell when it is written, it has been written a moment ago, or
  // others than the administrator may write it.
  static std::unique_ptr<CodeFile> Open(const std::string& path, ino_t inode);
  ~CodeFile();
  CodeFile(const CodeFile&) = delete;
  CodeFile& operator=(const CodeFile&) = delete;

  bool Unchanged() const;
  // Its page `number`; where both are there the next one follows it in memory. Null: the file has
  // no such page, or has changed. Valid as long as this.
  const uint8_t* Page(uint64_t number);

 private:
  CodeFile(UniqueFd file, const struct stat& status);
  bool ReadAround(uint64_t number);

  const UniqueFd file_;
  const struct stat status_;
  uint8_t* const bytes_;  // of the file, as far as they have been read; null: no memory
  std::mutex mutex_;
  std::vector<bool> read_;  // by page; guarded by mutex_
};

// Not copyable. Any host thread.
class CodeFiles {
 public:
  CodeFiles() = default;
  CodeFiles(const CodeFiles&) = delete;
  CodeFiles& operator=(const CodeFiles&) = delete;

  // The file that `region` shows, as it is named in the directory tree `root`: what is there in
  // memory but for pages that the process has stored to. Null: read the process's memory.
  std::shared_ptr<CodeFile> Find(const std::string& root, const MapRegion& region);
  // From now on processes may store to memory that they cannot write to.
  void EndAll();
  bool ended() const { return ended_.load(std::memory_order_relaxed); }

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t, std::string>;  // device, inode, name

  static constexpr size_t kMost = 128;

  std::atomic<bool> ended_ = false;
  std::mutex mutex_;
  absl::flat_hash_map<Key, std::shared_ptr<CodeFile>> files_;  // guarded by mutex_
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_CODE_FILE_H_
