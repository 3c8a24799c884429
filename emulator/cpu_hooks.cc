// What happens inside uc_emu_start: page faults, blocks, watched accesses.

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/cpu_impl.h"

namespace hindsight {
namespace {

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace

bool Cpu::Impl::RunningOn(uint64_t page) const {
  return block_size_ != 0 && PageOf(block_address_) <= page &&
         page <= PageOf(block_address_ + block_size_ - 1);
}

// Makes the page of `address` accessible, or not.
bool Cpu::Impl::Obtain(uint64_t address, bool write) {
  const uint64_t page = PageOf(address);
  if (view_.rights(page) == PageRights::kNone &&
      (!pager_->OnMissing(page, write ? Access::kWrite : Access::kRead) ||
       view_.rights(page) == PageRights::kNone)) {
    return false;
  }
  if (!write) return true;
  if (view_.rights(page) == PageRights::kRead) {
    if (!pager_->OnFirstWrite(page)) return false;
    view_.SetRights(page, PageRights::kReadWrite);
  }
  if (view_.is_code(page)) OnCodeWrite(page);
  return true;
}

bool Cpu::Impl::OnHostFault(void* pointer, bool write) {
  uint64_t address = 0;
  if (mode_ == Mode::kIdle || !view_.GuestAddress(pointer, &address)) return false;
  if (Obtain(address, write)) {
    view_.Regrant(PageOf(address));
    return true;
  }
  fault_ = true;
  fault_address_ = address;
  Poison(PageOf(address));
  return true;
}

bool Cpu::Impl::Read(uint64_t address, absl::Span<uint8_t> out) {
  const uint64_t last = address + out.size() - 1;
  if (!Obtain(address, /*write=*/false) || !Obtain(last, /*write=*/false)) return false;
  OnMemory(/*write=*/false, address, static_cast<uint32_t>(out.size()), 0);
  return view_.ReadHeld(address, out);
}

bool Cpu::Impl::Write(uint64_t address, absl::Span<const uint8_t> bytes) {
  const uint64_t last = address + bytes.size() - 1;
  if (!Obtain(address, /*write=*/true) || !Obtain(last, /*write=*/true)) return false;
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t value = 0;
    const size_t piece = std::min(sizeof(value), bytes.size() - i);
    std::memcpy(&value, bytes.data() + i, piece);
    OnMemory(/*write=*/true, address + i, static_cast<uint32_t>(piece), value);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    view_.HostPage(PageOf(address + i))[(address + i) % kPageBytes] = bytes[i];
  }
  return true;
}

// Generated code cannot be left at an access. Lets it run on, on garbage, to the end of its block.
void Cpu::Impl::Poison(uint64_t page) {
  const uint8_t* host = view_.HostPage(page);
  poisoned_.push_back({page, std::vector<uint8_t>(host, host + kPageBytes)});
  view_.Poison(page);
  ForceExit();
}

// The program writes to a page that has translated code. Unicorn drops its own translations; what
// we counted on is dropped at the next block. The block being executed was counted whole, which is
// wrong if it lies on that page and gets cut short.
void Cpu::Impl::OnCodeWrite(uint64_t page) {
  rewritten_.insert(page);
  view_.SetCode(page, false);
  pending_drops_.push_back(page);
  ForceExit();
  if (mode_ == Mode::kBlocks && RunningOn(page)) fault_ = true;
}

void Cpu::Impl::ContentsChanged(uint64_t page) {
  if (!view_.is_code(page) && !rewritten_.contains(page)) return;
  if (mode_ == Mode::kIdle) {
    DropNow(page);
    return;
  }
  pending_drops_.push_back(page);
  ForceExit();
  if (mode_ == Mode::kBlocks && RunningOn(page)) fault_ = true;
}

void Cpu::Impl::DropNow(uint64_t page) {
  ++code_version_;
  blocks_.DropPage(page);
  view_.SetCode(page, false);
  view_.Regrant(page);
  plain_->DropTranslations(page, kPageBytes);
  if (watching_ != nullptr) watching_->DropTranslations(page, kPageBytes);
}

void Cpu::Impl::ApplyPendingDrops() {
  for (uint64_t page : std::exchange(pending_drops_, {})) DropNow(page);
}

void Cpu::Impl::SetRights(uint64_t page, PageRights rights) {
  if (rights == PageRights::kNone && (view_.is_code(page) || rewritten_.contains(page))) ++epoch_;
  view_.SetRights(page, rights);
}

void Cpu::Impl::DropRights(absl::Span<const uint64_t> pages) {
  if (std::any_of(pages.begin(), pages.end(), [this](uint64_t page) {
        return view_.is_code(page) || rewritten_.contains(page);
      })) {
    ++epoch_;
  }
  view_.DropRights(pages);
}

bool Cpu::Impl::EnsureExecutable(uint64_t page) {
  if (view_.rights(page) == PageRights::kNone &&
      (!pager_->OnMissing(page, Access::kExecute) || view_.rights(page) == PageRights::kNone)) {
    return false;
  }
  return pager_->MayExecute(page);
}

std::optional<Instruction> Cpu::Impl::next() {
  constexpr uint64_t kLongest = 15;
  uint64_t page = PageOf(pc_);
  DecodedSlot& slot = decoded_[pc_ & (decoded_.size() - 1)];
  if (slot.pc == pc_ && slot.version == code_version_ && view_.is_code(page) &&
      view_.rights(page) != PageRights::kNone) {
    return slot.instruction;
  }
  if (pc_ >= View::kAddressLimit || !EnsureExecutable(page)) return std::nullopt;
  ApplyPendingDrops();
  uint64_t here = std::min(kLongest, page + kPageBytes - pc_);
  uint8_t bytes[kLongest];
  if (!view_.ReadHeld(pc_, absl::MakeSpan(bytes, here))) return std::nullopt;
  Instruction instruction = Classify(absl::MakeSpan(bytes, here));
  bool crosses = instruction.length == 0 && here < kLongest;
  if (crosses) {
    if (!EnsureExecutable(page + kPageBytes) ||
        !view_.ReadHeld(pc_ + here, absl::MakeSpan(bytes + here, kLongest - here))) {
      return std::nullopt;
    }
    instruction = Classify(bytes);
  } else if (!rewritten_.contains(page)) {
    view_.SetCode(page, true);
    slot = {.pc = pc_, .version = code_version_, .instruction = instruction};
  }
  return instruction;
}

// Looks at the code of a block that is new, or whose pages lost their rights since it was last
// looked at. nullptr: stop, and look again from outside.
Block* Cpu::Impl::Validate(uint64_t address, uint32_t size) {
  uint64_t last = PageOf(address + (size == 0 ? 0 : size - 1));
  bool step_only = false;
  for (uint64_t page = PageOf(address); page <= last; page += kPageBytes) {
    if (!EnsureExecutable(page) || !pending_drops_.empty()) {
      recheck_ = true;
      return nullptr;
    }
    step_only |= rewritten_.contains(page);
  }
  if (Block* known = blocks_.Find(address, size)) {
    known->epoch = epoch_;
    return known;
  }
  std::vector<uint8_t> code(size);
  if (!view_.ReadHeld(address, absl::MakeSpan(code))) {
    recheck_ = true;
    return nullptr;
  }
  for (uint64_t page = PageOf(address); page <= last; page += kPageBytes) {
    if (!rewritten_.contains(page)) view_.SetCode(page, true);
  }
  Block* block = blocks_.Add(address, code, breakpoints_, step_only);
  block->epoch = epoch_;
  return block;
}

bool Cpu::Impl::OnBlock(uint64_t address, uint32_t size) {
  if (mode_ == Mode::kTrapStep || address == running_rep_) return true;
  if (mode_ == Mode::kRepStep) {
    // The first block is the instruction itself, the next is behind it.
    if (running_rep_ != Block::kNoAddress) return false;
    running_rep_ = address;
    return true;
  }
  Block* block = blocks_.Find(address, size);
  if (block == nullptr || block->epoch != epoch_) [[unlikely]] {
    block = Validate(address, size);
    if (block == nullptr) return false;
  }
  // An exact run steps through its last block: run as a whole, that would have Unicorn translate
  // what comes behind, which need not be executable.
  uint64_t needs = exact_limit_ ? block->instructions : 0;
  if (count_ + needs >= effective_limit_.load(std::memory_order_relaxed) ||
      (block->flags & stop_flags_) != 0) [[unlikely]] {
    blocked_ = block;
    return false;
  }
  block_start_count_ = count_;
  block_address_ = address;
  block_size_ = size;
  running_rep_ = block->final_rep;
  if ((block->flags & (Block::kBreakpoint | Block::kOrderable)) != 0) NoteExecuted(*block);
  count_ += block->instructions;
  return true;
}

// A block is about to be executed from state count_ on.
void Cpu::Impl::NoteExecuted(const Block& block) {
  if (block.breakpoints != 0) [[unlikely]] {
    log_->breakpoint_hits += block.breakpoints;
    log_->last_breakpoint_count = count_ + block.last_breakpoint;
  }
  if (orderable_ == nullptr) return;
  for (uint32_t index : block.orderable) orderable_->push_back(count_ + index);
}

void Cpu::Impl::LogOrderable(MemoryModel model, std::vector<uint64_t>* counts) {
  orderable_ = counts;
  if (counts == nullptr) return;  // the blocks stay as they are: the next log will be of this model
  memory_model_ = model;
  blocks_.SetMemoryModel(model);
}

void Cpu::Impl::SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses) {
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

void Cpu::Impl::SetWatchpoints(const std::vector<Watchpoint>& watchpoints) {
  watchpoints_ = watchpoints;
  watch_low_ = ~uint64_t{0};
  watch_high_ = 0;
  for (const Watchpoint& watchpoint : watchpoints_) {
    watch_low_ = std::min(watch_low_, watchpoint.address);
    watch_high_ = std::max(watch_high_, watchpoint.address + watchpoint.length);
  }
}

void Cpu::Impl::OnMemory(bool write, uint64_t address, uint32_t size, uint64_t value) {
  if (address >= watch_high_ || address + size <= watch_low_) [[likely]]
    return;
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const Watchpoint& watchpoint = watchpoints_[i];
    if (address >= watchpoint.address + watchpoint.length || address + size <= watchpoint.address) {
      continue;
    }
    if (write ? watchpoint.on_write && Changes(address, size, value, watchpoint)
              : watchpoint.on_read) {
      NoteHit(i, std::max(address, watchpoint.address));
    }
  }
}

// Whether a write about to happen changes a byte of the watched location.
bool Cpu::Impl::Changes(uint64_t address, uint32_t size, uint64_t value,
                        const Watchpoint& watchpoint) {
  // Wider stores come in pieces of at most eight bytes.
  if (size > sizeof(value)) return true;
  for (uint32_t i = 0; i < size; ++i) {
    uint64_t at = address + i;
    if (at < watchpoint.address || at >= watchpoint.address + watchpoint.length) continue;
    if (view_.rights(PageOf(at)) == PageRights::kNone &&
        !pager_->OnMissing(PageOf(at), Access::kWrite)) {
      return false;  // the write itself will fault
    }
    uint8_t old = 0;
    view_.ReadHeld(at, absl::MakeSpan(&old, 1));
    if (old != static_cast<uint8_t>(value >> (8 * i))) return true;
  }
  return false;
}

void Cpu::Impl::NoteHit(size_t index, uint64_t address) {
  if (mode_ != Mode::kBlocks) {
    if (!watch_hit_) {
      hit_watchpoint_ = index;
      hit_address_ = address;
    }
    watch_hit_ = true;
    return;
  }
  if (log_ == nullptr) {
    fault_ = true;
    ForceExit();
    return;
  }
  ++log_->watch_hits;
  log_->last_watch_block_count = block_start_count_;
  log_->last_watch_block_end = count_;
}

}  // namespace hindsight
