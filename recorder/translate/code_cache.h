// What has been translated for one process: where it lies in the arenas, and what leads to it.
//
// Borrows the memory file and the memo, which must outlive it. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_CODE_CACHE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_CODE_CACHE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "recorder/translate/memo/translation_memo.h"
#include "recorder/translate/memory_file.h"
#include "translator/translator.h"

namespace hindsight {

class CodeCache {
 public:
  // Writes the stubs, for memory that is not exclusive.
  CodeCache(MemoryFile* file, TranslationMemo* memo);
  ~CodeCache();
  CodeCache(const CodeCache&) = delete;
  CodeCache& operator=(const CodeCache&) = delete;

  // Takes over what `maker` has, but for blocks that check their code. Requires: nothing has been
  // taken in; the file has a copy of the code of maker's, which is for memory of the same kind.
  void Inherit(const CodeCache& maker);

  // Where code for `guest_pc` can be placed next, with `bytes` to spare, which are at most
  // TranslationMemo::kLeastChunkBytes. 0: nowhere.
  uint64_t PlaceFor(uint64_t guest_pc, uint64_t bytes);
  // Code of so many bytes has been placed there.
  void Use(uint64_t guest_pc, uint64_t bytes);
  // Where exits of so many bytes lie, apart from code that is executed more often. Requires: as
  // for Use, they were among the bytes to spare.
  uint64_t UseForExits(uint64_t guest_pc, uint64_t bytes);
  StubAddresses StubsFor(uint64_t guest_pc) const;
  // Writes the stubs for memory that is exclusive, or is not: what is taken in from now on must be
  // of that kind. Requires: no thread is in translated code, and nothing is taken in.
  void WriteStubs(bool exclusive);

  // Host address of what `guest_pc` was translated to; 0: nothing.
  uint64_t Find(uint64_t guest_pc) const;
  // Takes in `translation`, and links it with all others. Requires: not Find(its guest pc).
  void Add(const Translation* translation);
  // Takes in what is known of a page of code, if it was never taken in. False: it was, and may have
  // threads in it; or blocks of the page are here already. Those come one by one.
  bool AddPage(const TranslationMemo::KnownPage* page);
  // Takes in one that nothing leads to: who made it knows where it is.
  void AddApart(const Translation* translation);

  // What `guest_pc` was translated to; null: nothing.
  const Translation* Get(uint64_t guest_pc);
  // What was translated from bytes in the page at `page`, one by one.
  void ForEachBlockIn(uint64_t page, const std::function<void(const Translation&)>& visit) const;
  // Nothing leads any more to the translation of `guest_pc`, if there is one.
  void Drop(uint64_t guest_pc);
  // Nothing leads any more to what was translated from bytes in [start, end). The code itself
  // stays: threads may be in it. Whether there was anything.
  bool Invalidate(uint64_t start, uint64_t end);
  // Nothing leads any more to anything that was taken in, or comes back to it. Requires: no thread
  // is in translated code.
  void ForgetAll();

  // Where the way to a guest pc from the table of indirect branches is; 0: nowhere yet. `key`:
  // IndirectTo.
  uint64_t FindWay(uint64_t key) const;
  // Takes in one that TranslateIndirectTo has made.
  void AddWay(uint64_t key, const Translation* translation);

  uint64_t block_count() const { return blocks_.size() + page_blocks_; }
  uint64_t code_bytes() const { return code_bytes_; }

 private:
  using Block = const Translation*;  // the memo's
  using Page = const TranslationMemo::KnownPage*;
  // A branch whose displacement lies at `host`, and the displacement that leads to its exit.
  struct Site {
    uint64_t host = 0;
    int32_t to_exit = 0;
  };
  // [next, end) has been taken from the memo and is free.
  struct Arena {
    uint64_t start = 0, next = 0, end = 0;
    StubAddresses stubs;
  };

  Arena& ArenaFor(uint64_t guest_pc);
  void WriteBlock(const Translation& translation);
  void LinkBranches(const Translation& translation);
  // Whoever changes these bytes makes `block` wrong.
  void RegisterPages(Block block, uint64_t start, uint64_t bytes);
  // All branches to `guest_pc` that have been written.
  void ForEachSite(uint64_t guest_pc, const std::function<void(const Site&)>& visit) const;
  void LinkFrom(Page page, uint8_t* code) const;
  void LinkTo(Page page);
  // Its blocks are in the maps one by one from now on.
  void TakeApart(Page page);
  void NoteSites(const Translation& translation);
  void NoteBlock(Block block);
  bool HasBlocksIn(Page page) const;
  void WriteSite(const Site& site, int32_t displacement);
  uint64_t IndexInMap(uint64_t key) const;
  // `key`: a guest pc, or IndirectTo.
  void SetInMap(uint64_t key, uint64_t host);
  void Unlink(const Translation& block);

  MemoryFile* const file_;
  TranslationMemo* const memo_;
  std::array<Arena, 2> arenas_;
  std::vector<uint8_t> piece_;                   // of a page, before it is written
  absl::flat_hash_map<uint64_t, Block> blocks_;  // by guest pc
  absl::btree_map<uint64_t, Block> written_;     // by host, also those no longer valid
  absl::flat_hash_map<uint64_t, absl::InlinedVector<Site, 2>> sites_;  // by the branch's target
  // By the number of each page that it depends on.
  absl::flat_hash_map<uint64_t, std::vector<Block>> pages_;
  absl::flat_hash_map<uint64_t, Page> known_pages_;  // by number, those not taken apart
  absl::flat_hash_set<uint64_t> written_pages_;      // their hosts, all
  std::vector<Page> modules_;                        // one of each module that has any
  std::vector<uint64_t> ways_;                       // keys of AddWay
  uint64_t page_blocks_ = 0;                         // in known_pages_
  uint64_t map_entries_ = 0;
  uint64_t code_bytes_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_CODE_CACHE_H_
