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

bool IsSame(absl::Span<const uint8_t> now, const std::vector<uint8_t>& then) {
  return now.size() >= then.size() && std::memcmp(now.data(), then.data(), then.size()) == 0;
}

std::vector<uint8_t> Copy(absl::Span<const uint8_t> bytes, uint64_t size) {
  const absl::Span<const uint8_t> part = bytes.first(std::min<uint64_t>(bytes.size(), size));
  return std::vector<uint8_t>(part.begin(), part.end());
}

}  // namespace

bool Fits(const Translation& translation, const BytesAt& bytes_at) {
  if (!IsSame(bytes_at(translation.guest_pc), translation.bytes)) return false;
  for (size_t i = 0; i < translation.relied_on.size(); ++i) {
    if (!IsSame(bytes_at(translation.block.relied_on[i].pc), translation.relied_on[i]))
      return false;
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
                                             TranslatedBlock block, const BytesAt& bytes_at) {
  auto translation = std::make_shared<Translation>();
  translation->guest_pc = guest_pc;
  translation->host = host;
  translation->bytes = Copy(bytes_at(guest_pc), block.guest_bytes);
  for (const CodeRange& range : block.relied_on) {
    translation->relied_on.push_back(Copy(bytes_at(range.pc), range.bytes));
  }
  translation->block = std::move(block);
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
