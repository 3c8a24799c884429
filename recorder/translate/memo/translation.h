// A translated block, the bytes that it was made from, and its place.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/types/span.h"
#include "translator/translator.h"

namespace hindsight {

// A TranslatedBlock in as little memory as possible.
struct StoredBlock {
  absl::Span<const uint8_t> code;
  uint32_t guest_bytes = 0;
  uint32_t return_offset = 0;
  absl::Span<const SideEntry> side;
  absl::Span<const Link> links;
  absl::Span<const CodeRange> relied_on;  // as far as there were bytes
  absl::Span<const uint32_t> outward, own;
};

// Never changes once it is shared. Movable, not copyable.
struct Translation {
  uint64_t guest_pc = 0;
  uint64_t host = 0;      // where it lies
  uint64_t made_for = 0;  // where block.code would: to be moved from there once it is copied
  StoredBlock block;
  bool checks_code = false;  // and leaves if it is not `bytes`
  // May be used by later recordings. Only if everything that it was made of is in `bytes` and
  // `relied_on`, and it does not check code.
  bool lasting = false;
  absl::Span<const uint8_t> bytes;
  absl::Span<const uint8_t> relied_on;  // the bytes of all of block.relied_on, one after the other
  // What the spans point to, unless it is somebody else's: there are many, and they end together.
  std::unique_ptr<uint64_t[]> storage;
};

// The bytes at a guest address, from there on; empty if there are none.
using BytesAt = std::function<absl::Span<const uint8_t>(uint64_t guest_pc)>;

// Whether it was made from the same bytes.
bool Fits(const Translation& translation, const BytesAt& bytes_at);

// `block`, translated for `host`.
std::unique_ptr<Translation> MakeTranslation(uint64_t guest_pc, uint64_t host,
                                             const TranslatedBlock& block, const BytesAt& bytes_at);

// Whether everything is within reach from `host`, too.
bool CanMove(const Translation& translation, uint64_t host);
// Writes the code as if it had been translated for `host`. Requires: CanMove, and so many bytes at
// `out`.
void WriteCode(const Translation& translation, uint64_t host, uint8_t* out);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_TRANSLATION_H_
