// Files that have been opened lately, and stay open until others have: opening takes longer than
// writing a little.
//
// Not copyable. Any host thread.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_RECENT_FILES_H_
#define HINDSIGHT_TRACEFMT_STORAGE_RECENT_FILES_H_

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace hindsight {

class RecentFiles {
 public:
  using File = std::shared_ptr<const UniqueFd>;

  RecentFiles() = default;
  RecentFiles(const RecentFiles&) = delete;
  RecentFiles& operator=(const RecentFiles&) = delete;

  // Null: it is not among them.
  File Find(absl::string_view name);
  // The name is not among them yet, or now another file's.
  void Add(std::string name, File file);
  // There is no such file any more, or another one.
  void Forget(absl::string_view name);
  // For who needs descriptors. Whether there were any.
  bool ForgetAll();

 private:
  static constexpr size_t kMost = 16;

  std::mutex mutex_;
  std::list<std::pair<std::string, File>> files_;  // guarded by mutex_; used last at the end
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_RECENT_FILES_H_
