// The part of a process's private memory that it writes all the time, read while it stands still.
//
// Once a process has been copied, the first write to each page costs it a fault, a copy, and
// telling the other processors: 3 us, and 10 with two threads. Reading the page while everything
// stands still costs 0.4, and if the copy gives up its own, writing to it costs no more than a
// fault.
//
//   Plan (while the process runs) --> Read (while it stands still) --> ProcessCopy::Forget
//
// Movable, not copyable. One thread.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_WRITTEN_MEMORY_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_WRITTEN_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "recorder/ptrace/whole/process_copy.h"
#include "recorder/snapshot/memory_pieces.h"

namespace hindsight {

class WrittenMemory {
 public:
  // Read while the process stands still, at most, unless something else is asked for.
  static constexpr uint64_t kMostBytes = 64 << 20;

  WrittenMemory() = default;
  WrittenMemory(WrittenMemory&&) = default;
  WrittenMemory& operator=(WrittenMemory&&) = default;

  // Chooses pages that no other process has: those that were written since the copy before this one
  // was made, if that is still there. `turn`: how many were made before; each time other pages are
  // left out, of which the next turns see whether they are still written.
  // `pool` is borrowed.
  static WrittenMemory Plan(pid_t process, uint64_t turn, uint64_t most_bytes, BlockPool* pool);
  // Reads them.
  void Read(pid_t process);
  // Those that were read, ascending.
  const std::vector<AddressRange>& ranges() const { return read_; }
  // The page at `address` as it was read, or null.
  const uint8_t* Find(uint64_t address) const;

 private:
  struct Planned {
    AddressRange range;
    std::vector<MemoryPieces::Chunk> chunks;
  };

  std::vector<Planned> planned_;
  std::vector<AddressRange> read_;
  MemoryPieces pieces_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_WRITTEN_MEMORY_H_
