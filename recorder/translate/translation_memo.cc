#include "recorder/translate/translation_memo.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "recorder/translate/agent/layout.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// Of code that changes, what was there last.
constexpr size_t kVersions = 4;
// Where the stubs of an arena lie.
constexpr uint64_t kFirstChunk = 4096;

int ArenaOf(uint64_t address) { return address - kLibraryArena < kArenaBytes ? 0 : 1; }

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

TranslationMemo::Chunk TranslationMemo::TakeChunk(uint64_t arena_start) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int arena = ArenaOf(arena_start);
  if (!free_[arena].empty()) {
    const Chunk chunk = free_[arena].back();
    free_[arena].pop_back();
    return chunk;
  }
  const uint64_t offset = kFirstChunk + taken_bytes_[arena];
  if (offset + kChunkBytes > kArenaBytes) return {};
  taken_bytes_[arena] += kChunkBytes;
  return {arena_start + offset, arena_start + offset + kChunkBytes};
}

void TranslationMemo::GiveBack(Chunk chunk) {
  if (chunk.end - chunk.start < kLeastChunkBytes) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  free_[ArenaOf(chunk.start)].push_back(chunk);
}

std::shared_ptr<const Translation> TranslationMemo::Find(uint64_t guest_pc, const BytesAt& bytes_at,
                                                         bool checked) const {
  std::vector<std::shared_ptr<const Translation>> candidates;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = by_pc_.find(guest_pc);
    if (it == by_pc_.end()) return nullptr;
    candidates = it->second;
  }
  for (const auto& candidate : candidates) {
    if ((candidate->checks_code || !checked) && Fits(*candidate, bytes_at)) return candidate;
  }
  return nullptr;
}

std::vector<std::shared_ptr<const Translation>> TranslationMemo::InPage(uint64_t address) const {
  std::vector<std::shared_ptr<const Translation>> result;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = by_page_.find(address / kPageBytes);
  if (it == by_page_.end()) return result;
  for (const uint64_t pc : it->second) result.push_back(by_pc_.at(pc).front());
  return result;
}

std::shared_ptr<Translation> MakeTranslation(uint64_t guest_pc, uint64_t host,
                                             const TranslatedBlock& block,
                                             const BytesAt& bytes_at) {
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
  const size_t size = BytesOf(links) + BytesOf(ranges) + BytesOf(side) + block.code.size() +
                      bytes.size() + relied_bytes.size();
  auto translation = std::make_shared<Translation>();
  translation->guest_pc = guest_pc;
  translation->host = host;
  translation->storage = std::make_unique_for_overwrite<uint64_t[]>(size / sizeof(uint64_t) + 1);
  Pieces pieces(translation->storage.get());
  // What needs most alignment first.
  static_assert(alignof(Link) == 8 && alignof(CodeRange) == 8 && alignof(SideEntry) == 4);
  translation->block.links = pieces.Copy(links);
  translation->block.relied_on = pieces.Copy(ranges);
  translation->block.side = pieces.Copy(side);
  translation->block.code = pieces.Copy(absl::MakeConstSpan(block.code));
  translation->block.guest_bytes = block.guest_bytes;
  translation->bytes = pieces.Copy(bytes);
  translation->relied_on = pieces.Copy(absl::MakeConstSpan(relied_bytes));
  return translation;
}

void TranslationMemo::Add(std::shared_ptr<const Translation> translation) {
  const uint64_t guest_pc = translation->guest_pc;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& versions = by_pc_[guest_pc];
  if (versions.empty()) by_page_[guest_pc / kPageBytes].push_back(guest_pc);
  if (versions.size() == kVersions) versions.pop_back();
  versions.insert(versions.begin(), std::move(translation));
}

}  // namespace hindsight
