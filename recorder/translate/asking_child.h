// Processes that have just been made, and what they ask for.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_ASKING_CHILD_H_
#define HINDSIGHT_RECORDER_TRANSLATE_ASKING_CHILD_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "recorder/process/pid_namespace.h"
#include "recorder/process/process_facts.h"
#include "recorder/translate/base/control.h"
#include "recorder/translate/memory_file.h"

namespace hindsight {

// Code that children have asked for, which those that come after them will as well: what a child
// does its maker does not. Any host thread.
class AskedCode {
 public:
  void Add(uint64_t guest_pc) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (asked_.size() < kMost) asked_.push_back(guest_pc);
  }
  // What has been added since the last call.
  std::vector<uint64_t> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(asked_, {});
  }

 private:
  static constexpr size_t kMost = 256;

  std::mutex mutex_;
  std::vector<uint64_t> asked_;  // guarded by mutex_
};

// A child as it tells of itself: its number in its own namespace, and the file of its memory.
struct AskingChild {
  pid_t own_number, parent;
  int fd;
  uint64_t inode;

  bool Is(pid_t process) const {
    if (fd >= 0) return MemoryFile::IsAt(process, fd, inode);
    if (process == parent || !HasOwnNumber(process, own_number)) return false;
    // The kernel does not compare with everybody: not with its own threads.
    const bool is_child = StatusNumber(process, "PPid:") == parent && HasMemory(process);
    return fd == kParentsMemory ? SharesMemory(process, parent, is_child) : is_child;
  }
  // 0: it is gone.
  pid_t Find() const {
    return FindProcess(own_number, parent, [this](pid_t process) { return Is(process); });
  }
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_ASKING_CHILD_H_
