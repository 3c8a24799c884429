// A translated block, the bytes that it was made from, and its place.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/types/span.h"
#include "isa/host_features.h"
#include "recorder/translate/memo/storage_pool.h"
#include "translator/translator.h"

namespace hindsight {

// A TranslatedBlock in as little memory as possible.
struct StoredBlock {
  // Without the exits; and these. Offsets below are as if they followed each other.
  absl::Span<const uint8_t> code, exits;
  uint32_t guest_bytes = 0;
  absl::Span<const SideEntry> side;
  absl::Span<const Link> links;
  absl::Span<const CodeRange> relied_on;  // as far as there were bytes
  absl::Span<const uint32_t> outward, own, to_exits;
};

// The status flags that are read from its beginning on.
inline uint16_t FlagsReadBy(const StoredBlock& block) {
  return block.side.empty() ? uint16_t{0} : block.side.front().flags_exact;
}

// Never changes once it is shared. What the spans point to is somebody else's.
struct Translation {
  uint64_t guest_pc = 0;
  // Where block.code and block.exits lie.
  uint64_t host = 0, exits_host = 0;
  // Where they would: to be moved from there once they are copied.
  uint64_t made_for = 0, exits_made_for = 0;
  StoredBlock block;
  bool checks_code = false;  // and leaves if it is not `bytes`
  // May be used by later recordings. Only if everything that it was made of is in `bytes` and
  // `relied_on`, and it does not check code.
  bool lasting = false;
  HostFeatures needs;  // of who replays it
  absl::Span<const uint8_t> bytes;
  absl::Span<const uint8_t> relied_on;  // the bytes of all of block.relied_on, one after the other
};

// The bytes at a guest address, from there on; empty if there are none.
using BytesAt = std::function<absl::Span<const uint8_t>(uint64_t guest_pc)>;

// Whether it was made from the same bytes.
bool Fits(const Translation& translation, const BytesAt& bytes_at);

// Makes of `block` what would have been translated for a place `distance` bytes further on, a
// multiple of kHostAlignment. False, and nothing is changed: something would be out of reach.
bool MoveBlock(uint32_t distance, TranslatedBlock* block);

// `block`, translated for `host`, with its exits behind it. The spans point into `pool`.
std::unique_ptr<Translation> MakeTranslation(uint64_t guest_pc, uint64_t host,
                                             const TranslatedBlock& block, const BytesAt& bytes_at,
                                             StoragePool* pool);

// Where the two parts of a block are to lie: multiples of kHostAlignment.
struct HostPlace {
  uint64_t host = 0, exits_host = 0;
};

// Whether everything is within reach from there, too.
bool CanMove(const Translation& translation, const HostPlace& place);
// Writes the code as if it had been translated for there. Requires: CanMove, and room for
// block.code at `out` and for block.exits at `exits_out`.
void WriteCode(const Translation& translation, const HostPlace& place, uint8_t* out,
               uint8_t* exits_out);
// The displacement by which a branch leads to its exit where the block lies.
int32_t ToExit(const Translation& translation, const Link& link);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_H_
