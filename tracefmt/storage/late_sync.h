// Hands files to the disk soon after they were written, on a thread of its own: who has written
// them does not wait. Those that come while others are being handed over are handed over together,
// which mostly costs what one does.
//
// Not copyable, not movable. Add from any thread. The destructor returns when all are on the disk.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_LATE_SYNC_H_
#define HINDSIGHT_TRACEFMT_STORAGE_LATE_SYNC_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace hindsight {

class LateSync {
 public:
  // `sync` hands over all of `files`: only tests bring one.
  explicit LateSync(std::function<void(const std::vector<UniqueFd>& files)> sync = &SyncAll);
  ~LateSync();
  LateSync(const LateSync&) = delete;
  LateSync& operator=(const LateSync&) = delete;

  // Has what is in `file` by now handed over. Whether that succeeds nobody learns.
  void Add(UniqueFd file);

  static void SyncAll(const std::vector<UniqueFd>& files);

 private:
  void Loop();

  const std::function<void(const std::vector<UniqueFd>&)> sync_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<UniqueFd> files_;  // guarded by mutex_
  bool closing_ = false;         // guarded by mutex_
  std::thread thread_;           // last: it uses all of the above
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_LATE_SYNC_H_
