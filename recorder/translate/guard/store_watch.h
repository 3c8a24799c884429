// Has the kernel hold whoever is about to store to certain pages of a process until that has been
// reported: any thread, and the kernel itself (userfaultfd with write protection, ioctl_userfaultfd
// (2)).
//
// The process sees nothing of it. If this goes, or the process that has it ends, all stores go on.
//
// Owns the descriptor and a host thread. Not copyable. Any host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_GUARD_STORE_WATCH_H_
#define HINDSIGHT_RECORDER_TRANSLATE_GUARD_STORE_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace hindsight {

// Descriptor `fd` of the process that `pidfd` is of, if it is a userfaultfd; else an invalid one.
UniqueFd TakeUserfaultfd(int pidfd, int fd);

class StoreWatch {
 public:
  // Called on its own host thread: somebody waits to store to `page`. May call Release.
  using OnStore = std::function<void(uint64_t page)>;

  // `file`: a userfaultfd that has not been used, of the process that made it.
  static absl::StatusOr<std::unique_ptr<StoreWatch>> Start(UniqueFd file, OnStore on_store);
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;
  ~StoreWatch();

  // [start, end) is one mapping, anonymous and private, in which pages may be watched. False: none
  // can be.
  bool Register(uint64_t start, uint64_t end);
  // From now on stores to [start, end) are held. False: they may not be.
  bool Watch(uint64_t start, uint64_t end);
  // No longer; those who wait go on.
  void Release(uint64_t start, uint64_t end);

 private:
  StoreWatch(UniqueFd file, UniqueFd stop, OnStore on_store);
  void Run();
  void ReadAll();

  const UniqueFd file_, stop_;
  const OnStore on_store_;
  std::thread thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_GUARD_STORE_WATCH_H_
