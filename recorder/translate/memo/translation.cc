#include "recorder/translate/memo/translation.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hindsight {
namespace {

bool IsSame(absl::Span<const uint8_t> now, absl::Span<const uint8_t> then) {
  return now.size() >= then.size() && std::memcmp(now.data(), then.data(), then.size()) == 0;
}

// Copies into one allocation, piece after piece.
class Pieces {
 public:
  explicit Pieces(uint64_t* storage) : next_(reinterpret_cast<uint8_t*>(storage)) {}

  template <typename T>
  absl::Span<const T> Copy(absl::Span<const T> from) {
    const auto* const copy = reinterpret_cast<const T*>(next_);
    if (!from.empty()) std::memcpy(next_, from.data(), from.size() * sizeof(T));
    next_ += from.size() * sizeof(T);
    return absl::MakeConstSpan(copy, from.size());
  }

 private:
  uint8_t* next_;
};

template <typename T>
size_t BytesOf(absl::Span<const T> span) {
  return span.size() * sizeof(T);
}

template <typename T>
T Read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void Subtract(uint64_t what, uint8_t* from) {
  const T value = static_cast<T>(Read<T>(from) - what);
  std::memcpy(from, &value, sizeof(value));
}

// How far the parts of a block are moved.
struct Distances {
  uint64_t code, exits;
};

Distances DistancesTo(const Translation& translation, const HostPlace& place) {
  return {place.host - translation.made_for, place.exits_host - translation.exits_made_for};
}

}  // namespace

bool Fits(const Translation& translation, const BytesAt& bytes_at) {
  if (!IsSame(bytes_at(translation.guest_pc), translation.bytes)) return false;
  absl::Span<const uint8_t> left = translation.relied_on;
  for (const CodeRange& range : translation.block.relied_on) {
    if (!IsSame(bytes_at(range.pc), left.first(range.bytes))) return false;
    left.remove_prefix(range.bytes);
  }
  return true;
}

bool MoveBlock(uint32_t distance, TranslatedBlock* block) {
  const bool reaches = std::all_of(block->outward.begin(), block->outward.end(), [&](uint32_t at) {
    const int64_t moved = int64_t{Read<int32_t>(&block->code[at])} - distance;
    return moved == static_cast<int32_t>(moved);
  });
  if (!reaches) return false;
  for (const uint32_t at : block->outward) Subtract<uint32_t>(distance, &block->code[at]);
  for (const uint32_t at : block->own) {
    Subtract<uint64_t>(0 - uint64_t{distance}, &block->code[at]);
  }
  return true;
}

std::unique_ptr<Translation> MakeTranslation(uint64_t guest_pc, uint64_t host,
                                             const TranslatedBlock& block, const BytesAt& bytes_at,
                                             StoragePool* pool) {
  const absl::Span<const uint8_t> bytes = bytes_at(guest_pc).subspan(0, block.guest_bytes);
  std::vector<CodeRange> relied_on = block.relied_on;
  std::vector<uint8_t> relied_bytes;
  for (CodeRange& range : relied_on) {
    const absl::Span<const uint8_t> part = bytes_at(range.pc).subspan(0, range.bytes);
    range.bytes = static_cast<uint32_t>(part.size());
    relied_bytes.insert(relied_bytes.end(), part.begin(), part.end());
  }
  const auto links = absl::MakeConstSpan(block.links);
  const auto ranges = absl::MakeConstSpan(relied_on);
  const auto side = absl::MakeConstSpan(block.side);
  const auto outward = absl::MakeConstSpan(block.outward), own = absl::MakeConstSpan(block.own);
  const auto to_exits = absl::MakeConstSpan(block.to_exits);
  const size_t size = BytesOf(links) + BytesOf(ranges) + BytesOf(side) + BytesOf(outward) +
                      BytesOf(own) + BytesOf(to_exits) + block.code.size() + bytes.size() +
                      relied_bytes.size();
  auto translation = std::make_unique<Translation>();
  translation->guest_pc = guest_pc;
  translation->host = translation->made_for = host;
  translation->exits_host = translation->exits_made_for = host + block.exits_offset;
  Pieces pieces(pool->Take(size / sizeof(uint64_t) + 1));
  // What needs most alignment first.
  static_assert(alignof(Link) == 8 && alignof(CodeRange) == 8 && alignof(SideEntry) == 4);
  translation->block.links = pieces.Copy(links);
  translation->block.relied_on = pieces.Copy(ranges);
  translation->block.side = pieces.Copy(side);
  translation->block.outward = pieces.Copy(outward);
  translation->block.own = pieces.Copy(own);
  translation->block.to_exits = pieces.Copy(to_exits);
  const absl::Span<const uint8_t> code = pieces.Copy(absl::MakeConstSpan(block.code));
  translation->block.code = code.first(block.exits_offset);
  translation->block.exits = code.subspan(block.exits_offset);
  translation->block.guest_bytes = block.guest_bytes;
  translation->bytes = pieces.Copy(bytes);
  translation->relied_on = pieces.Copy(absl::MakeConstSpan(relied_bytes));
  return translation;
}

bool CanMove(const Translation& translation, const HostPlace& place) {
  const StoredBlock& block = translation.block;
  return std::all_of(block.outward.begin(), block.outward.end(), [&](uint32_t at) {
    const bool in_exits = at >= block.code.size();
    const uint8_t* const rel32 = in_exits ? &block.exits[at - block.code.size()] : &block.code[at];
    const Distances distances = DistancesTo(translation, place);
    const int64_t moved =
        Read<int32_t>(rel32) - static_cast<int64_t>(in_exits ? distances.exits : distances.code);
    return moved == static_cast<int32_t>(moved);
  });
}

void WriteCode(const Translation& translation, const HostPlace& place, uint8_t* out,
               uint8_t* exits_out) {
  const StoredBlock& block = translation.block;
  std::memcpy(out, block.code.data(), block.code.size());
  if (!block.exits.empty()) std::memcpy(exits_out, block.exits.data(), block.exits.size());
  const Distances distances = DistancesTo(translation, place);
  if (distances.code == 0 && distances.exits == 0) return;
  const uint64_t code_bytes = block.code.size();
  const auto byte_at = [&](uint32_t offset) {
    return offset < code_bytes ? out + offset : exits_out + (offset - code_bytes);
  };
  for (const uint32_t at : block.outward) {
    Subtract<uint32_t>(at < code_bytes ? distances.code : distances.exits, byte_at(at));
  }
  for (const uint32_t at : block.own) {
    uint8_t* const address = byte_at(at);
    const bool to_code = Read<uint64_t>(address) - translation.made_for < code_bytes;
    Subtract<uint64_t>(0 - (to_code ? distances.code : distances.exits), address);
  }
  const uint64_t apart = distances.exits - distances.code;
  if (apart == 0) return;
  for (const uint32_t at : block.to_exits) Subtract<uint32_t>(0 - apart, out + at);
  for (const Link& link : block.links) Subtract<uint32_t>(0 - apart, out + link.rel32_offset);
}

int32_t ToExit(const Translation& translation, const Link& link) {
  const Distances distances = DistancesTo(translation, {translation.host, translation.exits_host});
  return static_cast<int32_t>(Read<uint32_t>(&translation.block.code[link.rel32_offset]) +
                              distances.exits - distances.code);
}

}  // namespace hindsight
