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
#include "tracefmt/records.h"

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
  // Reads what the process does not give to its children: private memory that `copy`, just made of
  // it, does not have (MADV_DONTFORK), or has as zeros (MADV_WIPEONFORK); into the room that is
  // left.
  void ReadWithheld(pid_t process, pid_t copy);
  // Where that is, ascending.
  struct Withheld {
    MapRegion region;
    bool mapped = false;  // in the copy
    bool whole = false;   // all of it that holds anything was read
  };
  const std::vector<Withheld>& withheld() const { return withheld_; }

  // The page at `address`, or null.
  const uint8_t* Find(uint64_t address) const;
  // Addresses of the pages in [start, end), ascending.
  std::vector<uint64_t> PagesIn(uint64_t start, uint64_t end) const;

 private:
  // False: not all of it.
  bool ReadRange(pid_t process, const PopulatedRange& range, size_t offset);
  bool ReadRegion(pid_t process, const MapRegion& region);

  std::vector<PopulatedRange> planned_;
  std::vector<Withheld> withheld_;
  std::vector<uint8_t> bytes_;
  std::map<uint64_t, size_t> pages_;  // address -> offset in bytes_
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_SHARED_MEMORY_H_
