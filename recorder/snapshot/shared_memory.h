// Shared memory of a process, which a copy of the process does not keep: it is read while the
// process stands still, as far as that does not take long.
//
//   Plan (while the process runs) --> Read (while it stands still)

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_SHARED_MEMORY_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_SHARED_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "recorder/process/populated_pages.h"

namespace hindsight {

// A value. One thread.
class SharedMemory {
 public:
  // Read while the process stands still, at most: some 5 ms.
  static constexpr uint64_t kMostBytes = 16 << 20;

  // Finds the populated pages of memory and files that the process shares; not those of devices.
  // Which fit in kMostBytes, the lowest first, is settled here.
  static SharedMemory Plan(pid_t process);
  // Reads them; those that cannot be read are left out.
  void Read(pid_t process);

  // The page at `address`, or null.
  const uint8_t* Find(uint64_t address) const;
  // Addresses of the pages in [start, end), ascending.
  std::vector<uint64_t> PagesIn(uint64_t start, uint64_t end) const;

 private:
  std::vector<PopulatedRange> planned_;
  std::vector<uint8_t> bytes_;
  std::map<uint64_t, size_t> pages_;  // address -> offset in bytes_
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_SHARED_MEMORY_H_
