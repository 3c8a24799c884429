// A process that has just been made, and asks the service of the process that made it.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_ASKING_CHILD_H_
#define HINDSIGHT_RECORDER_TRANSLATE_ASKING_CHILD_H_

#include <sys/types.h>

#include <cstdint>

#include "recorder/process/pid_namespace.h"
#include "recorder/process/process_facts.h"
#include "recorder/translate/base/control.h"
#include "recorder/translate/memory_file.h"

namespace hindsight {

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
