// What has been translated for one process: where it lies in the arenas, what leads to it, and
// which guest state each place stands for.
//
// Borrows the memory file, which must outlive it. Copyable in so far as a forked process begins
// with its parent's code (CopyTo). One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_CODE_CACHE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_CODE_CACHE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/translate/memory_file.h"
#include "translator/translator.h"

namespace hindsight {

// A guest's state within translated code: see SideEntry.
struct GuestPlace {
  uint64_t guest_pc = 0;
  int64_t adjust = 0;
  std::array<uint8_t, 4> saved = {};
};

class CodeCache {
 public:
  // Writes the stubs. `arena_bytes` of each arena are used, at most kArenaBytes.
  CodeCache(MemoryFile* file, uint64_t arena_bytes);
  CodeCache(const CodeCache&) = delete;
  CodeCache& operator=(const CodeCache&) = delete;

  // Where the code for `guest_pc` is to be placed next, and what it may refer to.
  uint64_t PlaceFor(uint64_t guest_pc) const;
  StubAddresses StubsFor(uint64_t guest_pc) const;
  // Whether `bytes` more fit there, and another block into the block map.
  bool HasRoom(uint64_t guest_pc, uint64_t bytes) const;

  // Host address of what `guest_pc` was translated to; 0: nothing.
  uint64_t Find(uint64_t guest_pc) const;
  // Takes in `block`, translated for PlaceFor(guest_pc), and links it with all others.
  // Requires: HasRoom; not Find(guest_pc).
  void Add(uint64_t guest_pc, TranslatedBlock block);

  // Nothing leads any more to what was translated from bytes in [start, end). The code itself
  // stays: threads may be in it. Whether there was anything.
  bool Invalidate(uint64_t start, uint64_t end);
  // Everything, and the memory is used again. Requires: no thread is in translated code.
  void Clear();

  // nullopt: not translated from any guest instruction.
  std::optional<GuestPlace> Recover(uint64_t host) const;

  // Makes `other`, a new one, the same.
  void CopyTo(CodeCache* other) const;

  uint64_t block_count() const { return blocks_.size(); }
  uint64_t code_bytes() const { return arenas_[0].used + arenas_[1].used; }

 private:
  struct Block {
    uint64_t guest_pc = 0, guest_bytes = 0, host = 0;
    std::vector<SideEntry> side;
  };
  // A branch whose displacement lies at `host`, and the displacement that leads to its exit.
  struct Site {
    uint64_t host = 0;
    int32_t to_exit = 0;
  };
  struct Arena {
    uint64_t start = 0, used = 0;
    StubAddresses stubs;
    std::vector<std::shared_ptr<const Block>> blocks;  // ascending
  };

  Arena& ArenaFor(uint64_t guest_pc);
  const Arena& ArenaFor(uint64_t guest_pc) const;
  void StartArena(Arena* arena);
  // Whoever changes these bytes makes `block` wrong.
  void RegisterPages(const std::shared_ptr<const Block>& block, uint64_t start, uint64_t bytes);
  void WriteSite(const Site& site, int32_t displacement);
  void SetInMap(uint64_t guest_pc, uint64_t host);
  void Unlink(const Block& block);

  MemoryFile* const file_;
  const uint64_t arena_bytes_;
  std::array<Arena, 2> arenas_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const Block>> blocks_;  // by guest pc
  absl::flat_hash_map<uint64_t, std::vector<Site>> sites_;              // by the branch's target
  // By the number of each page that it depends on.
  absl::flat_hash_map<uint64_t, std::vector<std::shared_ptr<const Block>>> pages_;
  uint64_t map_entries_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_CODE_CACHE_H_
