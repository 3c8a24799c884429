// What has been translated for any of the processes of a recording, so that the next one that
// executes the same code at the same place need not have it translated again; and, with a store,
// what earlier recordings had translated.
//
// Code is translated for a place in the arenas. So that it can be copied from process to process,
// all of them take places from one: no two blocks of a recording have the same, though each process
// has only its own in its memory. What comes from the store gets a new place, page by page.
//
// All translations are made with the same options, but for whether memory is exclusive. Any host
// thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_MEMO_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_MEMO_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/translate/memo/guest_places.h"
#include "recorder/translate/memo/page_image.h"
#include "recorder/translate/memo/translation.h"
#include "recorder/translate/memo/translation_file.h"
#include "recorder/translate/memo/translation_store.h"
#include "tracefmt/records.h"

namespace hindsight {

class TranslationMemo {
 public:
  // The code of one mapping of a file, in whatever process; or all code that is no file's.
  class Module;

  // `store` may be null.
  explicit TranslationMemo(std::unique_ptr<TranslationStore> store = nullptr);
  TranslationMemo(const TranslationMemo&) = delete;
  TranslationMemo& operator=(const TranslationMemo&) = delete;
  ~TranslationMemo();

  // A piece of an arena to put code in; empty: there is no more.
  struct Chunk {
    uint64_t start = 0, end = 0;
  };
  static constexpr uint64_t kChunkBytes = 256 * 1024, kLeastChunkBytes = 64 * 1024;
  Chunk TakeChunk(uint64_t arena_start);
  // What has not been used of it, if that is enough for another taker.
  void GiveBack(Chunk chunk);

  // What code in this region belongs to. `exclusive`: as it is translated for a process whose
  // memory nobody else stores to (base/control.h). Lives as long as the memo.
  Module* ModuleOf(const MapRegion& region, bool exclusive = false);
  // Code that is no file's.
  Module* others(bool exclusive = false) const { return others_[exclusive ? 1 : 0].get(); }

  // Whether the code in this region, a program's own, was hardly executed but by processes that
  // shared their memory by then, in earlier recordings.
  bool SharesUsually(const MapRegion& region);

  // The translation of the code at `guest_pc`, if there is one of the same bytes; `checked`: that
  // checks them.
  const Translation* Find(Module* module, uint64_t guest_pc, const BytesAt& bytes_at,
                          bool checked = false);
  // The last ones of all blocks that begin in the page that holds `address`, whatever their bytes;
  // without `stored` those of the store may be missing.
  std::vector<const Translation*> InPage(Module* module, uint64_t address, bool stored = true);

  // What the store has of a page, and where it is to lie; both of its blocks one by one and of all
  // of them in one piece.
  struct KnownPage {
    PageImage image;
    uint64_t host = 0;
    Module* module = nullptr;
  };
  // Of the page that holds `address`, whatever its bytes; null: nothing. Lives as long as the memo.
  const KnownPage* KnownPageOf(Module* module, uint64_t address);
  // Where the page that holds `address` comes among those that the store has of `module`, in the
  // order in which they were executed first; nullopt: it has nothing of it.
  static std::optional<uint32_t> PlaceOf(const Module* module, uint64_t address);
  // Where the page begins that comes there; nullopt: there are not so many.
  static std::optional<uint64_t> PageAt(const Module* module, uint32_t place);
  // The page that holds `address` was needed now, though the store may know it.
  void NoteUse(Module* module, uint64_t address);
  // All links from other pages of the store to [start, end), which is code of `page`'s module.
  static absl::Span<const TranslationFile::PageLink> LinksTo(const KnownPage& page, uint64_t start,
                                                             uint64_t end);
  // The blocks of `page`, one by one.
  std::vector<const Translation*> BlocksOf(const KnownPage& page);

  // Of all code that has been placed.
  const GuestPlaces& places() const { return places_; }

  // What translations that are added point into.
  StoragePool* pool() { return &pool_; }
  // Translations live as long as the memo. Null `module`: nobody finds it.
  const Translation* Add(Module* module, std::unique_ptr<const Translation> translation);

  // Gives the store what is new.
  void Save();

 private:
  Chunk TakeChunkLocked(uint64_t arena_start);
  uint64_t PlaceFor(uint64_t guest_pc, uint64_t bytes);
  const KnownPage* PlacePage(Module* module, uint64_t page);
  std::vector<const Translation*> Load(const KnownPage& page);

  const std::unique_ptr<TranslationStore> store_;
  StoragePool pool_;
  GuestPlaces places_;
  std::mutex mutex_;                          // for all that follows
  std::array<uint64_t, 2> taken_bytes_ = {};  // of the arenas
  std::array<std::vector<Chunk>, 2> free_;    // of that, given back
  std::array<Chunk, 2> loading_;              // where what comes from the store is put
  std::vector<std::unique_ptr<const Translation>> made_;
  const std::array<std::unique_ptr<Module>, 2> others_;  // the second: exclusive
  absl::flat_hash_map<std::string, std::unique_ptr<Module>> modules_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_MEMO_H_
