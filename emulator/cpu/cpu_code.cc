// Which code may be executed, and what was translated from it: pages that change under
// translations.
//
// Whether Unicorn itself notices writes to translated code depends on its version; nothing here
// relies on it.

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/cpu/cpu_impl.h"
#include "emulator/float/float_helpers.h"

namespace hindsight {
namespace {

constexpr uint64_t kAllLines = ~uint64_t{0};
// Each range to drop costs a look at all translations of its page.
constexpr size_t kMaxRanges = 8;

// Some ten megabytes of Unicorn's buffer.
constexpr uint64_t kMuchGarbage = uint64_t{1} << 15;

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

uint64_t LastPage(uint64_t address, uint32_t size) {
  return PageOf(address + (size == 0 ? 0 : size - 1));
}

}  // namespace

bool Cpu::Impl::RunningOn(uint64_t page) const {
  return block_size_ != 0 && PageOf(block_address_) <= page &&
         page <= PageOf(block_address_ + block_size_ - 1);
}

// The program writes to a page that has translated code. A block that does so to its own page was
// counted whole and goes on as translated, which is wrong if it changes itself.
void Cpu::Impl::OnCodeWrite(uint64_t page) {
  const bool own = mode_ == Mode::kBlocks && RunningOn(page);
  code_pages_.NoteWrite(page, view_.HostPage(page), work(), own);
  view_.SetCode(page, false);
  ++code_writes_;
  blocks_.Suspect(page);
  // What has been decoded from here on may be what changes.
  if (mode_ == Mode::kAssist && page == PageOf(pc_)) pending_drops_.push_back({page, 0});
  if (!own) return;
  fault_ = true;
  ForceExit();
}

void Cpu::Impl::ContentsChanged(uint64_t page, uint64_t lines) {
  const bool settled = code_pages_.state(page) == CodePages::State::kSettled;
  if (lines == 0 || (settled && !view_.is_code(page))) return;
  if (mode_ == Mode::kIdle) {
    if (settled) DropLines(page, lines);  // else they are compared before they are executed
    return;
  }
  if (settled) {
    pending_drops_.push_back({page, lines});
    ForceExit();
  }
  if (mode_ == Mode::kBlocks && RunningOn(page)) {
    fault_ = true;
    ForceExit();
  }
}

// True if blocks were there that write to memory.
bool Cpu::Impl::DropRange(uint64_t begin, uint64_t end) {
  ++code_version_;
  const size_t blocks = blocks_.size();
  const bool writes = blocks_.DropRange(begin, end);
  garbage_ += blocks - blocks_.size() + 1;  // and perhaps what a step translated
  // The byte before, so that translations of no bytes at `begin` count as touched.
  if (begin % kPageBytes != 0) --begin;
  plain_->DropTranslations(begin, end - begin);
  if (watching_ != nullptr) watching_->DropTranslations(begin, end - begin);
  return writes;
}

// Unicorn's buffer has a gigabyte, in which dropped translations stay until it is full: before it
// comes to that, begins anew.
void Cpu::Impl::RenewEngines() {
  if (garbage_ < std::max<uint64_t>(kMuchGarbage, blocks_.size())) return;
  garbage_ = 0;
  auto& place = engine_ == plain_.get() ? plain_ : watching_;
  auto fresh = UnicornEngine::Create(&view_, this, BlockHook, /*watch=*/&place == &watching_);
  if (!fresh.ok()) return;  // then with what there is
  const RegisterFile current = registers();
  place = *std::move(fresh);
  engine_ = place.get();
  SetRegisters(current);
}

void Cpu::Impl::DropPage(uint64_t page) {
  DropRange(page, page + kPageBytes);
  code_pages_.NoteDropped(page, view_.HostPage(page));
  view_.SetCode(page, false);
  view_.Regrant(page);
}

void Cpu::Impl::DropLines(uint64_t page, uint64_t lines) {
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

void Cpu::Impl::ApplyPendingDrops() {
  for (const PendingDrop& drop : std::exchange(pending_drops_, {})) {
    DropLines(drop.page, drop.lines);
    if (drop.lines == 0) Settle(drop.page);
  }
}

// Makes that what is translated on `page` is what stands there. Requires: no engine runs.
void Cpu::Impl::Settle(uint64_t page) {
  const CodePages::State before = code_pages_.state(page);
  if (before != CodePages::State::kSettled) {
    auto ranges = code_pages_.Changes(page, view_.HostPage(page));
    if (ranges.size() > kMaxRanges) ranges = {{ranges.front().begin, ranges.back().end}};
    bool needed = false;
    for (const CodePages::Range& range : ranges) needed |= DropRange(range.begin, range.end);
    code_pages_.Settle(page, view_.HostPage(page), work(), needed);
    const CodePages::State after = code_pages_.state(page);
    if (after != before) blocks_.Suspect(page);
    if (after != CodePages::State::kSettled) return;
  }
  view_.SetCode(page, true);
}

// Unicorn has translated these bytes: sees to it that a change of them will be noticed.
void Cpu::Impl::NoteTranslated(uint64_t address, uint32_t size) {
  for (uint64_t page = PageOf(address); page <= LastPage(address, size); page += kPageBytes) {
    const CodePages::State state = code_pages_.state(page);
    if (state == CodePages::State::kSettled) {
      view_.SetCode(page, true);
      continue;
    }
    const uint64_t begin = std::max(address, page);
    const uint64_t end = std::min(address + size, page + kPageBytes);
    if (state == CodePages::State::kWritten ||
        !code_pages_.Unchanged(begin, end - begin, view_.HostPage(page))) {
      pending_drops_.push_back({page, 0});
    }
  }
}

// Whether a guarded block was translated from the bytes that are there now. False: recheck.
bool Cpu::Impl::Unchanged(const Block& block) {
  NoteTranslated(block.address, block.size);
  recheck_ = !pending_drops_.empty();
  return !recheck_;
}

void Cpu::Impl::SetRights(uint64_t page, PageRights rights) {
  if (rights == PageRights::kNone && HasCode(page)) ++epoch_;
  view_.SetRights(page, rights);
}

void Cpu::Impl::DropRights(absl::Span<const uint64_t> pages) {
  if (std::any_of(pages.begin(), pages.end(), [this](uint64_t page) { return HasCode(page); })) {
    ++epoch_;
  }
  view_.DropRights(pages);
}

void Cpu::Impl::Release(absl::Span<const uint64_t> pages) {
  for (const uint64_t page : pages) {
    if (!HasCode(page)) continue;
    ++epoch_;
    DropPage(page);
    code_pages_.Forget(page);
  }
  view_.Release(pages);
}

// Also what an earlier user of a recycled Cpu has left there.
void Cpu::Impl::ReleaseChunk(uint64_t base) {
  ++epoch_;
  DropRange(base, base + View::kChunkBytes);
  code_pages_.ForgetRange(base, View::kChunkBytes);
  for (UnicornEngine* engine : {plain_.get(), watching_.get()}) {
    if (engine != nullptr) engine->Unmap(base);
  }
  view_.RemoveChunk(base);
}

bool Cpu::Impl::EnsureExecutable(uint64_t page) {
  HostFloatScope scope;  // an engine may be running
  if (view_.rights(page) == PageRights::kNone &&
      (!pager_->OnMissing(page, Access::kExecute) || view_.rights(page) == PageRights::kNone)) {
    return false;
  }
  return pager_->MayExecute(page);
}

std::optional<Instruction> Cpu::Impl::next() {
  constexpr uint64_t kLongest = 15;
  const uint64_t page = PageOf(pc_);
  DecodedSlot& slot = decoded_[pc_ & (decoded_.size() - 1)];
  if (slot.pc == pc_ && slot.version == code_version_ && view_.is_code(page) &&
      view_.rights(page) != PageRights::kNone) {
    return slot.instruction;
  }
  if (pc_ >= View::kAddressLimit || !EnsureExecutable(page)) return std::nullopt;
  ApplyPendingDrops();
  RenewEngines();
  Settle(page);
  const uint64_t here = std::min(kLongest, page + kPageBytes - pc_);
  uint8_t bytes[kLongest];
  if (!view_.ReadHeld(pc_, absl::MakeSpan(bytes, here))) return std::nullopt;
  Instruction instruction = Classify(absl::MakeSpan(bytes, here));
  const bool crosses = instruction.length == 0 && here < kLongest;
  if (crosses) {
    if (!EnsureExecutable(page + kPageBytes) ||
        !view_.ReadHeld(pc_ + here, absl::MakeSpan(bytes + here, kLongest - here))) {
      return std::nullopt;
    }
    ApplyPendingDrops();
    Settle(page + kPageBytes);
    instruction = Classify(bytes);
  } else if (view_.is_code(page)) {
    slot = {.pc = pc_, .version = code_version_, .instruction = instruction};
  }
  return instruction;
}

// Looks at the code of a block that is new, or whose pages lost their rights or were written to
// since it was last looked at. nullptr: stop, and look again from outside.
Block* Cpu::Impl::Validate(uint64_t address, uint32_t size) {
  block_size_ = 0;  // the block before is done, whatever happens to its page
  recheck_ = true;
  NoteTranslated(address, size);
  bool mixed = false;
  for (uint64_t page = PageOf(address); page <= LastPage(address, size); page += kPageBytes) {
    if (!EnsureExecutable(page) || !pending_drops_.empty()) return nullptr;
    mixed |= code_pages_.state(page) == CodePages::State::kMixed;
  }
  Block* block = blocks_.Find(address, size);
  if (block == nullptr) {
    std::vector<uint8_t> code(size);
    if (!view_.ReadHeld(address, absl::MakeSpan(code))) return nullptr;
    block = blocks_.Add(address, code, breakpoints_);
  }
  recheck_ = false;
  block->epoch = epoch_;
  block->flags &= static_cast<uint16_t>(~(Block::kGuarded | Block::kStepHere));
  if (mixed)
    block->flags |= (block->flags & Block::kWrites) != 0 ? Block::kStepHere : Block::kGuarded;
  return block;
}

}  // namespace hindsight
