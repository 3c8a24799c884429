#include "recorder/translate/memo/seen_code.h"

#include <algorithm>
#include <bit>

namespace hindsight {
namespace {

constexpr uint64_t kWordBits = 64;

// Bits [first, first + count) of a word.
uint64_t Bits(uint64_t first, uint64_t count) {
  return (count == kWordBits ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << first;
}

// `visit` gets [first, first + count) in parts that lie in one word each, until it returns false:
// the word's index, and the bits.
template <typename Visit>
bool ForEachWord(uint64_t first, uint64_t count, const Visit& visit) {
  for (const uint64_t end = first + count; first < end;) {
    const uint64_t part = std::min(end - first, kWordBits - first % kWordBits);
    if (!visit(first / kWordBits, Bits(first % kWordBits, part))) return false;
    first += part;
  }
  return true;
}

}  // namespace

bool SeenCode::Add(const Translation& translation) {
  if (!ForAll(translation, &SeenCode::Agree)) return false;
  return ForAll(translation, &SeenCode::Set);
}

// `visit` gets bytes of one page at a time.
bool SeenCode::ForAll(const Translation& translation, Visit visit) {
  const auto each = [&](uint64_t pc, absl::Span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const absl::Span<const uint8_t> part = bytes.subspan(0, kPageBytes - pc % kPageBytes);
      if (!(this->*visit)(pc, part)) return false;
      pc += part.size();
      bytes.remove_prefix(part.size());
    }
    return true;
  };
  if (!each(translation.guest_pc, translation.bytes)) return false;
  absl::Span<const uint8_t> left = translation.relied_on;
  const absl::Span<const CodeRange> ranges = translation.block.relied_on;
  for (size_t i = 0; i < ranges.size();) {
    // Mostly instructions one after the other.
    const uint64_t start = ranges[i].pc;
    uint64_t end = start;
    for (; i < ranges.size() && ranges[i].pc == end; ++i) end += ranges[i].bytes;
    if (!each(start, left.first(end - start))) return false;
    left.remove_prefix(end - start);
  }
  return true;
}

SeenCode::Page* SeenCode::PageAt(uint64_t pc) {
  const uint64_t number = pc / kPageBytes;
  if (last_page_ == nullptr || number != last_number_) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique_for_overwrite<Page>();
    last_page_ = page.get();
    last_number_ = number;
  }
  return last_page_;
}

bool SeenCode::Agree(uint64_t pc, absl::Span<const uint8_t> bytes) {
  const Page& page = *PageAt(pc);
  const uint64_t start = pc % kPageBytes;
  return ForEachWord(start, bytes.size(), [&](uint64_t word, uint64_t bits) {
    for (uint64_t left = page.seen[word] & bits; left != 0; left &= left - 1) {
      const uint64_t at = word * kWordBits + static_cast<uint64_t>(std::countr_zero(left));
      if (page.bytes[at] != bytes[at - start]) return false;
    }
    return true;
  });
}

bool SeenCode::Set(uint64_t pc, absl::Span<const uint8_t> bytes) {
  Page* const page = PageAt(pc);
  const uint64_t start = pc % kPageBytes;
  std::copy(bytes.begin(), bytes.end(), page->bytes.begin() + start);
  return ForEachWord(start, bytes.size(), [&](uint64_t word, uint64_t bits) {
    page->seen[word] |= bits;
    return true;
  });
}

void SeenCode::Take(std::vector<CodeRange>* ranges, std::vector<uint8_t>* bytes) const {
  for (const auto& [number, page] : pages_) {
    for (uint64_t at = 0; at < kPageBytes;) {
      const uint64_t in_word = at % kWordBits, rest = page->seen[at / kWordBits] >> in_word;
      if (rest == 0) {
        at += kWordBits - in_word;
        continue;
      }
      at += static_cast<uint64_t>(std::countr_zero(rest));
      const uint64_t start = at;
      while (at < kPageBytes && (page->seen[at / kWordBits] >> at % kWordBits & 1) != 0) ++at;
      ranges->push_back({number * kPageBytes + start, static_cast<uint32_t>(at - start)});
      bytes->insert(bytes->end(), &page->bytes[start], &page->bytes[start] + (at - start));
    }
  }
}

}  // namespace hindsight
