// The memory that the recorder shares with one program: control block, translated code, block map
// (base/layout.h). It belongs to the program's process, which maps parts of it; here all of it is
// mapped and can be written.
//
// Movable, not copyable. Any host thread, one at a time, but for the control block, which has rules
// of its own.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMORY_FILE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMORY_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "recorder/translate/base/control.h"
#include "recorder/translate/base/layout.h"
#include "recorder/translate/stream/map_reads.h"
#include "recorder/translate/stream/record_ring.h"

namespace hindsight {

class MemoryFile {
 public:
  // Of descriptor `fd` of `process`, an empty memfd.
  static absl::StatusOr<MemoryFile> Open(pid_t process, int fd);
  // Whether descriptor `fd` of `process` is the memory file with this inode.
  static bool IsAt(pid_t process, int fd, uint64_t inode);
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) = delete;
  ~MemoryFile();

  ControlBlock* control() const { return reinterpret_cast<ControlBlock*>(base_ + kControlInFile); }
  absl::Span<BlockMapEntry> block_map() const {
    return {reinterpret_cast<BlockMapEntry*>(base_ + kBlockMapInFile), kBlockMapEntries};
  }
  // Of the process that uses it.
  const std::shared_ptr<MapReads>& map_reads() const { return map_reads_; }
  // What a thread tells the recorder.
  HsRing* ring(uint64_t thread) const {
    return reinterpret_cast<HsRing*>(base_ + RingInFile(thread));
  }
  // Copies `bytes` to `offset` in where the agent's image lies, kAgentImageLimit bytes.
  void WriteImage(uint64_t offset, absl::Span<const uint8_t> bytes) {
    Write(kImageInFile + offset, bytes);
  }
  // What the program has at `address`, in an arena. Requires: InArenas(address).
  uint8_t* code(uint64_t address) const;
  // Copies `bytes` there.
  void WriteCode(uint64_t address, absl::Span<const uint8_t> bytes) {
    Write(InFile(address), bytes);
  }
  // Makes the arenas and the block map a copy of those of `other`. False: it cannot be done, or is
  // too much; then they are empty, or as they were. Requires: nothing but stubs is there; nobody
  // writes to `other`'s meanwhile.
  bool CopyCode(const MemoryFile& other);

 private:
  struct FilePiece {
    off_t start = 0, end = 0;
  };

  MemoryFile(UniqueFd file, uint8_t* base) : file_(std::move(file)), base_(base) {}
  static uint64_t InFile(uint64_t address);
  // Where nothing has been written before, a call takes less time than a fault for each page.
  void Write(uint64_t in_file, absl::Span<const uint8_t> bytes);
  // What has been written to of the arenas and the block map.
  std::vector<FilePiece> CodePieces() const;

  UniqueFd file_;  // may be invalid
  uint8_t* base_;  // null: moved from
  std::shared_ptr<MapReads> map_reads_ = std::make_shared<MapReads>();
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMORY_FILE_H_
