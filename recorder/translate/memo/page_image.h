// The translations of all blocks that begin in one page of guest code, as files keep them: the code
// in one piece, so that a process takes all of it at once.
//
//   header, ranges, links, blocks, inner links, outward, own, bytes of the ranges, code, records
//
// The code of all blocks comes first, then the exits of all: what is executed often lies close
// together. What moves the code is as in TranslatedBlock, with offsets from the beginning of the
// piece. A record per block has the rest: what it was made from, and its side table.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_PAGE_IMAGE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_PAGE_IMAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "recorder/translate/memo/translation.h"

namespace hindsight {

// Points into bytes that must outlive it. Immutable, copyable. Any host thread.
class PageImage {
 public:
  static constexpr uint64_t kMaxCodeBytes = 128 * 1024;

  struct Block {
    uint64_t guest_pc;
    uint32_t code_offset;
    uint32_t record_offset;
    uint16_t guest_bytes;
    uint16_t flags_read;  // FlagsReadBy
    uint32_t reserved;
  };
  // The rel32 at `site` leads to the block at `target`: offsets in the code.
  struct InnerLink {
    uint32_t site, target;
  };

  // nullopt: `bytes`, which are aligned to 8, are not what AppendPageImage writes.
  static std::optional<PageImage> Decode(absl::Span<const uint8_t> bytes);

  uint64_t page() const { return header_->page; }          // number
  uint64_t made_for() const { return header_->made_for; }  // where the code would lie
  uint64_t code_bytes() const { return header_->code_bytes; }
  uint64_t last_byte() const { return header_->last_byte; }  // that any block was made from
  HostFeatures needs() const { return HostFeatures::FromBits(header_->needs); }  // of all of them
  absl::Span<const Block> blocks() const { return blocks_; }  // ascending, also by code_offset
  // Those to what is not in this page. Their rel32 leads to their exit.
  absl::Span<const Link> links() const { return links_; }
  int32_t ToExit(const Link& link) const;
  // Null: there is none that begins there.
  const Block* Find(uint64_t guest_pc) const;

  // As of Translation, of all of them.
  bool Fits(const BytesAt& bytes_at) const;
  bool CanMove(uint64_t host) const;
  // The inner links lead where they are to; the others to their exits.
  void WriteCode(uint64_t host, uint8_t* out) const;
  // Whether bytes in [start, end) are among those that any was made from or relied on.
  bool DependsOn(uint64_t start, uint64_t end) const;

  // One of blocks(), where the piece lies at `host`. nullopt: damaged.
  std::optional<Translation> Get(const Block& block, uint64_t host) const;
  // The one whose code has `offset`.
  const Block* At(uint64_t offset) const;

 private:
  struct Header {
    uint64_t page;
    uint64_t made_for;
    uint64_t last_byte;
    uint64_t needs;
    uint32_t ranges, links, blocks, inner, outward, own;  // how many
    uint32_t range_bytes, code_bytes, record_bytes, reserved;
  };
  static uint64_t SizeOf(const Header& header);

  friend void AppendPageImage(absl::Span<const Translation* const> translations,
                              std::vector<uint8_t>* out);

  const Header* header_ = nullptr;
  absl::Span<const CodeRange> ranges_;
  absl::Span<const Link> links_;
  absl::Span<const Block> blocks_;
  absl::Span<const InnerLink> inner_;
  absl::Span<const uint32_t> outward_, own_;
  absl::Span<const uint8_t> range_bytes_, code_, records_;
};

// Requires: ascending by guest_pc, no two of the same, all of one page, at least one. Leaves out
// what cannot be moved to the others, or was made from other bytes at the same place.
void AppendPageImage(absl::Span<const Translation* const> translations, std::vector<uint8_t>* out);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_PAGE_IMAGE_H_
