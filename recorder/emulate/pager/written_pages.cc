#include "recorder/emulate/pager/written_pages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "recorder/log/page_diff.h"

namespace hindsight {
namespace {

// The bytes that differ, each run of them one piece.
void AppendChangedBytes(const KnownPage& page, uint64_t lines, std::vector<MemoryPiece>* pieces) {
  const uint8_t* const before = page.pristine->data();
  for (; lines != 0; lines &= lines - 1) {
    const uint64_t line = std::countr_zero(lines) * kLineBytes;
    for (uint64_t i = line; i < line + kLineBytes;) {
      const uint64_t start = i;
      while (i < line + kLineBytes && before[i] != page.host[i]) ++i;
      if (i > start) pieces->push_back({page.address + start, page.host + start, i - start});
      while (i < line + kLineBytes && before[i] == page.host[i]) ++i;
    }
  }
}

void AppendChanges(const KnownPage& page, bool others_store, std::vector<MemoryPiece>* pieces) {
  if (page.pristine == nullptr) {
    pieces->push_back({page.address, page.host, kPageBytes});
    return;
  }
  const uint64_t lines = ChangedLines(page.pristine->data(), page.host);
  if (others_store || page.shared || lines == 0) {
    AppendChangedBytes(page, lines, pieces);
    return;
  }
  const int first = std::countr_zero(lines), last = 63 - std::countl_zero(lines);
  pieces->push_back({page.address + first * kLineBytes, page.host + first * kLineBytes,
                     (last - first + 1) * kLineBytes});
}

}  // namespace

std::vector<uint64_t> WrittenPages::addresses() const {
  std::vector<uint64_t> addresses;
  addresses.reserve(pages_.size());
  for (const KnownPage* page : pages_) addresses.push_back(page->address);
  return addresses;
}

void WrittenPages::Add(KnownPage* page, uint64_t count, bool used_by_several) {
  if (page->dirty) return;
  page->dirty = page->written = true;
  page->discarded = false;
  page->stay_writable.Renew();
  if (page->shared || keep_pristine_) page->SavePristine();
  pages_.push_back(page);
  const bool shared = page->shared || used_by_several;
  if (note_ == Note::kAll || (note_ == Note::kShared && shared)) {
    noted_.push_back({page->address, count});
  }
}

void WrittenPages::KeepPristine(bool keep) {
  keep_pristine_ = keep;
  if (!keep) return;
  for (KnownPage* page : pages_) page->SavePristine();
}

std::vector<MemoryPiece> WrittenPages::Changes(bool others_store) {
  std::vector<MemoryPiece> pieces;
  pieces.reserve(pages_.size());
  // Neighbours are moved together.
  std::sort(pages_.begin(), pages_.end(),
            [](const KnownPage* a, const KnownPage* b) { return a->address < b->address; });
  for (const KnownPage* page : pages_) AppendChanges(*page, others_store, &pieces);
  return pieces;
}

std::vector<uint64_t> WrittenPages::Settle(const std::function<void(const KnownPage&)>& each) {
  std::vector<uint64_t> clean;
  std::erase_if(pages_, [&](KnownPage* page) {
    page->copied |= page->pristine == nullptr;  // then all of it was written
    each(*page);
    if (!page->shared && note_ == Note::kNone && page->stay_writable.Use()) {
      if (keep_pristine_) page->SavePristine();
      return false;
    }
    page->dirty = false;
    page->pristine.reset();
    clean.push_back(page->address);
    return true;
  });
  return clean;
}

std::optional<std::vector<uint64_t>> WrittenPages::Rollback(
    const ProcessMemory& memory, const std::function<void(const KnownPage&)>& changed) {
  std::array<uint8_t, kPageBytes> contents;
  for (KnownPage* page : pages_) {
    if (page->pristine != nullptr) {
      contents = *page->pristine;
    } else if (!memory.Read(page->address, absl::MakeSpan(contents))) {
      return std::nullopt;
    }
    page->dirty = false;
    page->pristine.reset();
    if (std::memcmp(page->host, contents.data(), kPageBytes) == 0) continue;
    std::memcpy(page->host, contents.data(), kPageBytes);
    changed(*page);
  }
  std::vector<uint64_t> clean = addresses();
  pages_.clear();
  return clean;
}

void WrittenPages::DropClean() {
  std::erase_if(pages_, [](const KnownPage* page) { return !page->dirty; });
}

}  // namespace hindsight
