// Memory of a stopped process, read at once and kept.
//
// Movable, not copyable. One thread.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_MEMORY_PIECES_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_MEMORY_PIECES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "recorder/snapshot/block_pool.h"

namespace hindsight {

class MemoryPieces {
 public:
  // To be read in one call.
  struct Chunk {
    uint64_t address = 0;
    absl::Span<uint8_t> bytes;
  };

  MemoryPieces() = default;
  // `pool` is borrowed.
  explicit MemoryPieces(BlockPool* pool) : pool_(pool) {}
  MemoryPieces(MemoryPieces&&) = default;
  MemoryPieces& operator=(MemoryPieces&&) = default;

  // Makes room for [start, end), so that reading it takes no time for that; adds its chunks. False:
  // there is none. Requires: page boundaries, a pool.
  bool Reserve(uint64_t start, uint64_t end, std::vector<Chunk>* chunks);
  // Reads the chunks, which Reserve has made; those pages that cannot be read are left out. False:
  // there are such. A second thread helps with many.
  bool Read(pid_t process, const std::vector<Chunk>& chunks);

  // The page at `address`, or null.
  const uint8_t* Find(uint64_t address) const;
  // Addresses of the pages in [start, end), ascending.
  std::vector<uint64_t> PagesIn(uint64_t start, uint64_t end) const;

 private:
  // What was read, from its address to `end`.
  struct Piece {
    uint64_t end = 0;
    const uint8_t* bytes = nullptr;
  };
  bool ReadByPages(pid_t process, const Chunk& chunk);

  BlockPool* pool_ = nullptr;
  std::vector<BlockPool::Block> blocks_;
  uint64_t used_ = BlockPool::kBlockBytes;  // of the last of them
  std::map<uint64_t, Piece> pieces_;        // by address
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_MEMORY_PIECES_H_
