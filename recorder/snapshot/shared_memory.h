// Shared memory of a process, which a copy of the process does not keep: it is read while the
// process stands still, as far as that does not take long.
//
//   Plan (while the process runs) --> Read (while it stands still)

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_SHARED_MEMORY_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_SHARED_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "recorder/snapshot/memory_pieces.h"
#include "tracefmt/records.h"

namespace hindsight {

// Movable, not copyable. One thread.
class SharedMemory {
 public:
  // Read while the process stands still, at most, unless something else is asked for.
  static constexpr uint64_t kMostBytes = 64 << 20;

  SharedMemory() = default;
  SharedMemory(SharedMemory&&) = default;
  SharedMemory& operator=(SharedMemory&&) = default;

  // Finds the populated pages of memory and files that the process shares, and those of files that
  // others may store to in private mappings; not those of devices.
  // Which fit in `most_bytes`, the lowest first, is settled here.
  // `pool` is borrowed.
  static SharedMemory Plan(pid_t process, uint64_t most_bytes, BlockPool* pool);
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

  const MemoryPieces& pieces() const { return pieces_; }

 private:
  using Chunk = MemoryPieces::Chunk;
  // As far as there is room; false: not all of it.
  bool PlanRange(uint64_t start, uint64_t end, std::vector<Chunk>* chunks);
  bool ReadRegion(pid_t process, const MapRegion& region);

  uint64_t room_ = 0;  // bytes
  std::vector<Chunk> planned_;
  std::vector<Withheld> withheld_;
  MemoryPieces pieces_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_SHARED_MEMORY_H_
