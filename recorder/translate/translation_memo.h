// What has been translated for any of the processes of a recording, so that the next one that
// executes the same code at the same place need not have it translated again.
//
// Code is translated for a place in the arenas. So that it can be copied from process to process,
// all of them take places from one: no two blocks of a recording have the same, though each process
// has only its own in its memory.
//
// All translations are made with the same options. Any host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_TRANSLATION_MEMO_H_
#define HINDSIGHT_RECORDER_TRANSLATE_TRANSLATION_MEMO_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "translator/translator.h"

namespace hindsight {

// A TranslatedBlock in as little memory as possible.
struct StoredBlock {
  absl::Span<const uint8_t> code;
  uint32_t guest_bytes = 0;
  absl::Span<const SideEntry> side;
  absl::Span<const Link> links;
  absl::Span<const CodeRange> relied_on;  // as far as there were bytes
};

// A block, the bytes that it was made from, and its place. Never changes. Not copyable.
struct Translation {
  uint64_t guest_pc = 0;
  uint64_t host = 0;
  StoredBlock block;
  bool checks_code = false;  // and leaves if it is not `bytes`
  absl::Span<const uint8_t> bytes;
  absl::Span<const uint8_t> relied_on;  // the bytes of all of block.relied_on, one after the other
  std::unique_ptr<uint64_t[]> storage;  // for all of that: there are many, and they end together
};

// The bytes at a guest address, from there on; empty if there are none.
using BytesAt = std::function<absl::Span<const uint8_t>(uint64_t guest_pc)>;

// Whether it was made from the same bytes.
bool Fits(const Translation& translation, const BytesAt& bytes_at);

// `block`, translated for `host`.
std::shared_ptr<Translation> MakeTranslation(uint64_t guest_pc, uint64_t host,
                                             const TranslatedBlock& block, const BytesAt& bytes_at);

class TranslationMemo {
 public:
  TranslationMemo() = default;
  TranslationMemo(const TranslationMemo&) = delete;
  TranslationMemo& operator=(const TranslationMemo&) = delete;

  // A piece of an arena to put code in; empty: there is no more.
  struct Chunk {
    uint64_t start = 0, end = 0;
  };
  static constexpr uint64_t kChunkBytes = 256 * 1024, kLeastChunkBytes = 64 * 1024;
  Chunk TakeChunk(uint64_t arena_start);
  // What has not been used of it, if that is enough for another taker.
  void GiveBack(Chunk chunk);

  // The translation of the code at `guest_pc`, if there is one of the same bytes; `checked`: that
  // checks them.
  std::shared_ptr<const Translation> Find(uint64_t guest_pc, const BytesAt& bytes_at,
                                          bool checked = false) const;
  // The last ones of all blocks that begin in the page that holds `address`, whatever their bytes.
  std::vector<std::shared_ptr<const Translation>> InPage(uint64_t address) const;

  void Add(std::shared_ptr<const Translation> translation);

 private:
  mutable std::mutex mutex_;                  // for all that follows
  std::array<uint64_t, 2> taken_bytes_ = {};  // of the arenas
  std::array<std::vector<Chunk>, 2> free_;    // of that, given back
  absl::flat_hash_map<uint64_t, std::vector<std::shared_ptr<const Translation>>> by_pc_;
  absl::flat_hash_map<uint64_t, std::vector<uint64_t>> by_page_;  // page's number -> pcs
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_TRANSLATION_MEMO_H_
