// What happens inside uc_emu_start: blocks, page faults, watched accesses.

#include <utility>

#include "emulator/cpu/cpu_impl.h"
#include "emulator/unicorn/float_helpers.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kDirectionFlag = 0x400;

}  // namespace

// Nearly always there is nothing to do but to count.
void Cpu::Impl::BlockHook(uc_engine* uc, uint64_t address, uint32_t size, void* client) {
  auto* cpu = static_cast<Impl*>(static_cast<EngineClient*>(client));
  Block* block = cpu->code_.blocks().FindQuickly(address, size);
  if (block != nullptr && block->epoch == cpu->code_.epoch() && cpu->mode_ == Mode::kBlocks &&
      address != cpu->progress_.running_rep() && cpu->filter_.OnlyCounts(*block) &&
      cpu->progress_.HasRoomFor(*block) && cpu->MayRunThrough(*block)) [[likely]] {
    cpu->progress_.Enter(*block);
    return;
  }
  if (!cpu->OnBlock(address, size)) uc_emu_stop(uc);
}

// False: stop before the block.
bool Cpu::Impl::OnBlock(uint64_t address, uint32_t size) {
  if (mode_ == Mode::kTrapStep) return true;
  if (address == progress_.running_rep()) return !TakesOverRep();
  if (mode_ == Mode::kRepStep) return OnRepBlock(address, size);
  Block* block = code_.blocks().Find(address, size);
  if (block == nullptr || block->epoch != code_.epoch()) {
    progress_.LeaveBlock();
    block = code_.Validate(address, size,
                           [this](uint64_t page) { return memory_.ObtainForExecution(page); });
    stop_.recheck = block == nullptr;
    if (block == nullptr) return false;
  }
  if (!progress_.HasRoomFor(*block) || filter_.StopsAt(*block) != 0 || !MayRunThrough(*block)) {
    const bool unchecked = (filter_.StopsAt(*block) & Block::kUnchecked) != 0;
    if (unchecked && --block->steps_left == 0) block->flags &= ~Block::kUnchecked;
    stop_.blocked = block;
    return false;
  }
  if ((block->flags & Block::kGuarded) != 0 && !code_.IsUnchanged(*block)) {
    stop_.recheck = true;
    return false;
  }
  NoteExecuted(*block);
  progress_.Enter(*block);
  return true;
}

// The first block of the step is the instruction itself, the next comes after it.
bool Cpu::Impl::OnRepBlock(uint64_t address, uint32_t size) {
  if (progress_.running_rep() != Block::kNoAddress) {
    code_.NoteTranslated(address, size);
    return false;
  }
  progress_.EnterRep(address);
  return true;
}

// Before an iteration of a REP instruction other than its first: whether all that are left are to
// be executed at once, outside the engine.
bool Cpu::Impl::TakesOverRep() {
  // Below this it is quicker not to leave the engine.
  constexpr uint64_t kMinIterations = 48;
  const uint64_t count = progress_.count();
  // Once for each instruction is enough: while it is executed the count does not change.
  if (std::exchange(takeover_.considered_at, count) == count) return false;
  if (!memory_.watchpoints().empty()) return false;
  const Block* const block = code_.blocks().Find(progress_.block_address(), progress_.block_size());
  const bool at_once = mode_ == Mode::kRepStep
                           ? takeover_.step_at_once
                           : block != nullptr && (block->flags & Block::kRepAtOnce) != 0;
  UnicornEngine* const engine = registers_.engine();
  if (!at_once || engine->ReadGpr(kRcx) < kMinIterations ||
      (engine->ReadFlags() & kDirectionFlag) != 0) {
    return false;
  }
  return takeover_.taken = true;
}

// A block is about to be executed from state count() on.
void Cpu::Impl::NoteExecuted(const Block& block) {
  const uint64_t count = progress_.count();
  if (block.breakpoints != 0) {
    log_->breakpoint_hits += block.breakpoints;
    log_->last_breakpoint_count = count + block.last_breakpoint;
  }
  if (orderable_.active() && !block.orderable.empty()) orderable_.AddBlock(count, block.orderable);
}

bool Cpu::Impl::OnHostFault(void* pointer, bool write) {
  uint64_t address = 0;
  if (mode_ == Mode::kIdle || !memory_.view().GuestAddress(pointer, &address)) return false;
  if (memory_.Obtain(address, write)) {
    memory_.view().Regrant(PageOf(address));
    return true;
  }
  memory_.set_fault_address(address);
  memory_.Poison(PageOf(address));
  FailBlock();
  return true;
}

// A chunk is made only where there is a page: it costs host mappings, and the engine gets slower
// with each that is a region of its own.
bool Cpu::Impl::OnNewChunk(bool write, uint64_t address) {
  HostFloatScope scope;  // an engine is running
  if (memory_.Obtain(address, write)) return true;
  stop_.fault = true;
  memory_.set_fault_address(address);
  return false;
}

// A block that writes to its own page was counted whole and goes on as translated, which is wrong
// if it changes itself.
void Cpu::Impl::OnCodeWrite(uint64_t page) {
  const bool own = mode_ == Mode::kBlocks && progress_.IsOnPage(page);
  code_.NoteWrite(page, progress_.work(), own);
  // What has been decoded from here on may be what changes.
  if (mode_ == Mode::kAssist && page == PageOf(registers_.pc())) code_.DropLater(page, 0);
  if (own) FailBlock();
}

void Cpu::Impl::OnMemory(bool write, uint64_t address, uint32_t size, uint64_t value) {
  if (!memory_.watchpoints().MayTouch(address, size)) [[likely]]
    return;
  OnWatchedAccess(write, address, size, value);
}

void Cpu::Impl::OnWatchedAccess(bool write, uint64_t address, uint32_t size, uint64_t value) {
  const auto on_hit = [this](const Watchpoints::Hit& hit) { OnWatchHit(hit); };
  if (!write) {
    memory_.watchpoints().FindRead(address, size, on_hit);
    return;
  }
  memory_.watchpoints().FindWrite(
      address, size, value, [this](uint64_t at) { return memory_.ByteBeforeWrite(at); }, on_hit);
}

// Whether nothing is to be noticed of a silent hit by the block or instruction executed now.
bool Cpu::Impl::IsQuiet(const Watchpoints::Hit& hit) const {
  const uint64_t count = progress_.count();
  // Where one instruction is executed alone, it may have been counted or not.
  const CountRange states = mode_ == Mode::kBlocks
                                ? CountRange{progress_.block_start_count(), count}
                                : CountRange{count == 0 ? 0 : count - 1, count + 1};
  return std::any_of(quiet_.begin(), quiet_.end(), [&](const QuietStores& quiet) {
    return quiet.Covers(hit) && quiet.states.from <= states.from && states.to <= quiet.states.to;
  });
}

void Cpu::Impl::OnWatchHit(const Watchpoints::Hit& hit) {
  if (hit.silent && IsQuiet(hit)) return;
  if (mode_ != Mode::kBlocks) {
    if (!std::exchange(watch_hit_, true) || (hit_.silent && !hit.silent)) hit_ = hit;
    if (hit.size != 0) stores_.push_back(hit);
    return;
  }
  if (log_ == nullptr) {
    FailBlock();
    return;
  }
  log_->AddWatchHit({progress_.block_start_count(), progress_.count()});
}

}  // namespace hindsight
