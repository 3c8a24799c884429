#include "emulator/code/translated_code.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kAllLines = ~uint64_t{0};
// Dropping a range looks at all translations of its page.
constexpr size_t kMaxRanges = 8;

// Some ten megabytes of Unicorn's buffer.
constexpr uint64_t kMuchGarbage = uint64_t{1} << 15;

uint64_t LastPage(uint64_t address, uint32_t size) {
  return PageOf(address + (size == 0 ? 0 : size - 1));
}

}  // namespace

void TranslatedCode::SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses) {
  absl::flat_hash_set<uint64_t> changed;
  for (uint64_t address : addresses) {
    if (!breakpoints_.contains(address)) changed.insert(address);
  }
  for (uint64_t address : breakpoints_) {
    if (!addresses.contains(address)) changed.insert(address);
  }
  blocks_.DropContaining(changed);
  breakpoints_ = addresses;
}

void TranslatedCode::SetRights(uint64_t page, PageRights rights) {
  if (rights == PageRights::kNone && HasCode(page)) ++epoch_;
  view_->SetRights(page, rights);
}

void TranslatedCode::DropRights(absl::Span<const uint64_t> pages) {
  if (std::any_of(pages.begin(), pages.end(), [this](uint64_t page) { return HasCode(page); })) {
    ++epoch_;
  }
  view_->DropRights(pages);
}

void TranslatedCode::DropAllRights() {
  view_->DropAllRights();
  ++epoch_;
}

void TranslatedCode::Release(absl::Span<const uint64_t> pages) {
  for (const uint64_t page : pages) {
    if (!HasCode(page)) continue;
    ++epoch_;
    DropPage(page);
    code_pages_.Forget(page);
  }
  view_->Release(pages);
}

// Also what an earlier user of a recycled Cpu has left there.
void TranslatedCode::ReleaseChunk(uint64_t base) {
  ++epoch_;
  DropRange(base, base + View::kChunkBytes);
  code_pages_.ForgetRange(base, View::kChunkBytes);
  engines_->Unmap(base);
  view_->RemoveChunk(base);
}

bool TranslatedCode::DropRange(uint64_t begin, uint64_t end) {
  ++version_;
  const size_t blocks = blocks_.size();
  const bool writes = blocks_.DropRange(begin, end);
  garbage_ += blocks - blocks_.size() + 1;  // and perhaps what a step translated
  // The byte before, so that translations of no bytes at `begin` count as touched.
  if (begin % kPageBytes != 0) --begin;
  engines_->DropTranslations(begin, end);
  return writes;
}

void TranslatedCode::DropPage(uint64_t page) {
  DropRange(page, page + kPageBytes);
  code_pages_.NoteDropped(page, view_->HostPage(page));
  view_->SetCode(page, false);
  view_->Regrant(page);
}

void TranslatedCode::DropLines(uint64_t page, uint64_t lines) {
  if (lines == kAllLines) {
    DropPage(page);
    return;
  }
  while (lines != 0) {
    const int first = std::countr_zero(lines);
    const int count = std::countr_one(lines >> first);
    DropRange(page + static_cast<uint64_t>(first) * kLineBytes,
              page + static_cast<uint64_t>(first + count) * kLineBytes);
    lines &= ~(((uint64_t{1} << count) - 1) << first);
  }
}

void TranslatedCode::ApplyPending(uint64_t work) {
  for (const Pending& drop : std::exchange(pending_, {})) {
    DropLines(drop.page, drop.lines);
    if (drop.lines == 0) Settle(drop.page, work);
  }
}

void TranslatedCode::NoteWrite(uint64_t page, uint64_t work, bool own) {
  code_pages_.NoteWrite(page, view_->HostPage(page), work, own);
  view_->SetCode(page, false);
  ++writes_;
  blocks_.Invalidate(page);
}

// The page's state, before and after (the diagram is in code_pages.h):
//
//   settled           nothing changed: stays settled
//   written -> settled, unwritable again
//   written -> mixed  it turns too often: stays writable, so its blocks are validated again
//   mixed   -> mixed  the changes are dropped
//   mixed   -> settled
void TranslatedCode::Settle(uint64_t page, uint64_t work) {
  const CodePages::State before = code_pages_.state(page);
  if (before != CodePages::State::kSettled) {
    auto ranges = code_pages_.Changes(page, view_->HostPage(page));
    if (ranges.size() > kMaxRanges) ranges = {{ranges.front().begin, ranges.back().end}};
    bool needed = false;
    for (const CodePages::Range& range : ranges) needed |= DropRange(range.begin, range.end);
    code_pages_.Settle(page, view_->HostPage(page), work, needed);
    const CodePages::State after = code_pages_.state(page);
    if (after != before) blocks_.Invalidate(page);
    if (after != CodePages::State::kSettled) return;
  }
  view_->SetCode(page, true);
}

void TranslatedCode::NoteTranslated(uint64_t address, uint32_t size) {
  for (uint64_t page = PageOf(address); page <= LastPage(address, size); page += kPageBytes) {
    const CodePages::State state = code_pages_.state(page);
    if (state == CodePages::State::kSettled) {
      view_->SetCode(page, true);
      continue;
    }
    const uint64_t begin = std::max(address, page);
    const uint64_t end = std::min(address + size, page + kPageBytes);
    if (state == CodePages::State::kWritten ||
        !code_pages_.Unchanged(begin, end - begin, view_->HostPage(page))) {
      DropLater(page, 0);
    }
  }
}

bool TranslatedCode::IsUnchanged(const Block& block) {
  NoteTranslated(block.address, block.size);
  return pending_.empty();
}

Block* TranslatedCode::Validate(uint64_t address, uint32_t size,
                                absl::FunctionRef<bool(uint64_t page)> may_execute) {
  NoteTranslated(address, size);
  bool mixed = false;
  for (uint64_t page = PageOf(address); page <= LastPage(address, size); page += kPageBytes) {
    if (!may_execute(page) || !pending_.empty()) return nullptr;
    mixed |= code_pages_.state(page) == CodePages::State::kMixed;
  }
  Block* block = blocks_.Find(address, size);
  if (block == nullptr) {
    std::vector<uint8_t> code(size);
    if (!view_->ReadHeld(address, absl::MakeSpan(code))) return nullptr;
    block = blocks_.Add(address, code, breakpoints_);
  }
  block->epoch = epoch_;
  block->flags &= static_cast<uint16_t>(~(Block::kGuarded | Block::kStepHere));
  if (mixed) {
    block->flags |= (block->flags & Block::kWrites) != 0 ? Block::kStepHere : Block::kGuarded;
  }
  return block;
}

void TranslatedCode::Remember(uint64_t pc, const Instruction& instruction) {
  if (!view_->is_code(PageOf(pc))) return;
  decoded_[pc & (decoded_.size() - 1)] = {
      .pc = pc, .version = version_, .instruction = instruction};
}

bool TranslatedCode::TakeMuchGarbage() {
  if (garbage_ < std::max<uint64_t>(kMuchGarbage, blocks_.size())) return false;
  garbage_ = 0;
  return true;
}

}  // namespace hindsight
