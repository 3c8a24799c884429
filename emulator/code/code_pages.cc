#include "emulator/code/code_pages.h"

#include <algorithm>
#include <cstring>

namespace hindsight {
namespace {

// A turn costs about as much as running this many instructions, to an order of magnitude: turns
// further apart than that do not matter.
constexpr uint64_t kQuickWork = 20'000;
constexpr uint32_t kFirstHot = 8;
constexpr uint32_t kLastHot = 1 << 10;
// A step costs a microsecond, a turn five, a write by a block to its own page, which has the Cpu's
// owner go back, a hundred or more.
constexpr uint32_t kFirstBudget = 64;
constexpr uint32_t kLastBudget = 1 << 20;
constexpr uint32_t kOwnWriteFactor = 4;
// Changes closer than this are one range: dropping a range looks at all translations of the page.
constexpr uint64_t kGapBytes = 64;

std::vector<CodePages::Range> Differences(uint64_t page, const uint8_t* before,
                                          const uint8_t* after) {
  std::vector<CodePages::Range> ranges;
  if (std::memcmp(before, after, kPageBytes) == 0) return ranges;
  for (uint64_t word = 0; word < kPageBytes; word += sizeof(uint64_t)) {
    if (std::memcmp(before + word, after + word, sizeof(uint64_t)) == 0) continue;
    uint64_t first = word, last = word + sizeof(uint64_t) - 1;
    while (before[first] == after[first]) ++first;
    while (before[last] == after[last]) --last;
    if (!ranges.empty() && page + first - ranges.back().end < kGapBytes) {
      ranges.back().end = page + last + 1;
    } else {
      ranges.push_back({page + first, page + last + 1});
    }
  }
  return ranges;
}

}  // namespace

CodePages::State CodePages::state(uint64_t page) const {
  const auto found = pages_.find(page);
  return found == pages_.end() ? State::kSettled : found->second.state;
}

void CodePages::Mix(Page* page, const uint8_t* bytes) {
  page->state = State::kMixed;
  page->stepped = 0;
  std::memcpy(page->translated->data(), bytes, kPageBytes);
}

void CodePages::NoteWrite(uint64_t address, const uint8_t* bytes, uint64_t work, bool own) {
  Page& page =
      pages_.try_emplace(address, Page{.hot = kFirstHot, .budget = kFirstBudget}).first->second;
  if (page.translated == nullptr) page.translated = std::make_unique<Bytes>();
  std::memcpy(page.translated->data(), bytes, kPageBytes);
  page.state = State::kWritten;
  if (!own) return;
  page.budget = std::min(page.budget * kOwnWriteFactor, kLastBudget);
  Mix(&page, bytes);
}

std::vector<CodePages::Range> CodePages::Changes(uint64_t page, const uint8_t* bytes) const {
  const auto found = pages_.find(page);
  if (found == pages_.end() || found->second.state == State::kSettled) return {};
  return Differences(page, found->second.translated->data(), bytes);
}

void CodePages::Settle(uint64_t address, const uint8_t* bytes, uint64_t work, bool needed) {
  const auto found = pages_.find(address);
  if (found == pages_.end() || found->second.state == State::kSettled) return;
  Page& page = found->second;
  if (page.state == State::kWritten) {
    const bool quick = work - page.settled_at < kQuickWork;
    page.settled_at = work;
    if (!quick) {
      page.heat /= 2;
    } else if (!needed) {
      ++page.heat;
    } else if (page.heat > 0) {
      --page.heat;
    }
    if (page.heat >= page.hot) {
      Mix(&page, bytes);
      return;
    }
  } else {
    if (page.stepped <= page.budget) {
      std::memcpy(page.translated->data(), bytes, kPageBytes);
      return;
    }
    page.heat = 0;
    page.hot = std::min(2 * page.hot, kLastHot);
  }
  page.state = State::kSettled;
  page.translated.reset();
}

bool CodePages::Unchanged(uint64_t address, uint64_t size, const uint8_t* bytes) const {
  const uint64_t offset = address % kPageBytes;
  const auto found = pages_.find(address - offset);
  return found == pages_.end() || found->second.state == State::kSettled ||
         std::memcmp(found->second.translated->data() + offset, bytes + offset, size) == 0;
}

void CodePages::NoteStep(uint64_t page) {
  const auto found = pages_.find(page);
  if (found != pages_.end() && found->second.state == State::kMixed) ++found->second.stepped;
}

void CodePages::NoteDropped(uint64_t address, const uint8_t* bytes) {
  const auto found = pages_.find(address);
  if (found == pages_.end() || found->second.state == State::kSettled) return;
  Page& page = found->second;
  if (page.state == State::kMixed) {
    std::memcpy(page.translated->data(), bytes, kPageBytes);
  } else {
    page.state = State::kSettled;
    page.translated.reset();
  }
}

}  // namespace hindsight
