// What happens before each block that an engine executes.

#include <array>
#include <bit>
#include <utility>

#include "emulator/cpu/cpu_impl.h"
#include "emulator/cpu/x87_stack.h"

namespace hindsight {
namespace {

constexpr uint64_t kDirectionFlag = 0x400;

}  // namespace

// Nearly always there is nothing to do but to count.
void Cpu::Impl::BlockHook(uc_engine* uc, uint64_t address, uint32_t size, void* client) {
  auto* cpu = static_cast<Impl*>(static_cast<EngineClient*>(client));
  Block* block = cpu->blocks_.FindQuickly(address, size);
  if (block != nullptr && block->epoch == cpu->epoch_ && cpu->mode_ == Mode::kBlocks &&
      address != cpu->running_rep_ && (block->flags & cpu->slow_flags_) == 0 &&
      cpu->HasRoomFor(*block) && cpu->MayRunThrough(*block)) [[likely]] {
    cpu->Enter(*block);
    return;
  }
  if (!cpu->OnBlock(address, size)) uc_emu_stop(uc);
}

// An exact run steps through its last block: run as a whole, that would have Unicorn translate what
// comes behind, which need not be executable.
bool Cpu::Impl::HasRoomFor(const Block& block) const {
  const uint64_t needs = exact_limit_ ? block.instructions : 0;
  return count_ + needs < effective_limit_.load(std::memory_order_relaxed);
}

void Cpu::Impl::Enter(const Block& block) {
  block_start_count_ = count_;
  block_address_ = block.address;
  block_size_ = block.size;
  running_rep_ = block.final_rep;
  count_ += block.instructions;
}

// Before an iteration of a REP instruction other than its first: whether all that are left are to
// be executed at once.
bool Cpu::Impl::TakesOverRep() {
  // Below this it is quicker not to leave the engine.
  constexpr uint64_t kMinIterations = 48;
  // One look at each is enough: while it is executed the count does not change.
  if (std::exchange(rep_looked_at_, count_) == count_ || !watchpoints_.empty()) return false;
  const Block* const block = blocks_.Find(block_address_, block_size_);
  const bool at_once = mode_ == Mode::kRepStep
                           ? rep_step_at_once_
                           : block != nullptr && (block->flags & Block::kRepAtOnce) != 0;
  if (!at_once || engine_->ReadGpr(kRcx) < kMinIterations ||
      (engine_->ReadFlags() & kDirectionFlag) != 0) {
    return false;
  }
  return rep_taken_over_ = true;
}

// False: stop before the block.
bool Cpu::Impl::OnBlock(uint64_t address, uint32_t size) {
  if (mode_ == Mode::kTrapStep) return true;
  if (address == running_rep_) return !TakesOverRep();
  if (mode_ == Mode::kRepStep) {
    // The first block is the instruction itself, the next is behind it.
    if (running_rep_ != Block::kNoAddress) {
      NoteTranslated(address, size);
      return false;
    }
    running_rep_ = address;
    return true;
  }
  Block* block = blocks_.Find(address, size);
  if (block == nullptr || block->epoch != epoch_) {
    block = Validate(address, size);
    if (block == nullptr) return false;
  }
  if (!HasRoomFor(*block) || (block->flags & stop_flags_) != 0 || !MayRunThrough(*block)) {
    const bool unchecked = (block->flags & stop_flags_ & Block::kUnchecked) != 0;
    if (unchecked && --block->steps_left == 0) block->flags &= ~Block::kUnchecked;
    blocked_ = block;
    return false;
  }
  if ((block->flags & Block::kGuarded) != 0 && !Unchanged(*block)) return false;
  NoteExecuted(*block);
  Enter(*block);
  return true;
}

// With the registers that the engine is about to execute it with.
bool Cpu::Impl::PassesChecks(const Block& block) {
  return ((block.flags & Block::kAligned) == 0 || IsAligned(block)) &&
         ((block.flags & Block::kUpperHalf) == 0 || KeepsNoUpperHalf(block)) &&
         ((block.flags & Block::kX87Stack) == 0 || (engine_->EmptyX87() & block.x87_needed) == 0);
}

bool Cpu::Impl::IsAligned(const Block& block) {
  const bool again = block_address_ == block.address && block_size_ == block.size;
  if (again && (block.flags & Block::kKept) != 0) return true;
  for (const AlignmentCheck& check : block.alignment) {
    uint64_t sum = check.constant;
    for (int i = 0; i < check.term_count; ++i) {
      sum += engine_->ReadGpr(check.terms[i].gpr) * check.terms[i].factor;
    }
    if (sum % AlignmentCheck::kModulus != 0) return false;
  }
  return true;
}

bool Cpu::Impl::KeepsNoUpperHalf(const Block& block) {
  for (const UpperHalfCheck& check : block.upper_halves) {
    if (check.lower != kNoGpr && static_cast<uint32_t>(engine_->ReadGpr(check.lower)) != 0) {
      continue;
    }
    if (check.upper == kNoGpr || engine_->ReadGpr(check.upper) >> 32 != 0) return false;
  }
  return true;
}

// Whether it does, if it is one. `instruction` is next().
bool Cpu::Impl::FcmovFaults(const Instruction& instruction) {
  if (!MovesX87Conditionally(instruction.mnemonic)) return false;
  std::array<uint8_t, 15> bytes;
  const auto code = absl::MakeSpan(bytes.data(), instruction.length);
  if (!view_.ReadHeld(pc_, code)) return false;
  const RegisterFile& now = registers();
  const unsigned full =
      static_cast<uint8_t>(std::rotr(static_cast<uint8_t>(now.ftw), now.fsw >> 11 & 7));
  return (RegistersOfFcmov(code) & ~full) != 0;
}

// `instruction` is next().
bool Cpu::Impl::NextIsAligned(const Instruction& instruction) {
  std::array<uint8_t, 15> bytes;
  const auto code = absl::MakeSpan(bytes.data(), instruction.length);
  if (!view_.ReadHeld(pc_, code)) return true;
  const RegisterFile& now = registers();
  if (checks_accesses()) return AccessesAreAligned(pc_, code, now.gpr, now.fs_base, now.gs_base);
  return OperandIsAligned(pc_, code, now.gpr, now.fs_base, now.gs_base);
}

// A block is about to be executed from state count_ on.
void Cpu::Impl::NoteExecuted(const Block& block) {
  if (block.breakpoints != 0) {
    log_->breakpoint_hits += block.breakpoints;
    log_->last_breakpoint_count = count_ + block.last_breakpoint;
  }
  if (orderable_ == nullptr || block.orderable.empty()) return;
  const size_t logged = orderable_->size();
  orderable_->resize(logged + block.orderable.size());
  uint64_t* out = orderable_->data() + logged;
  for (uint32_t index : block.orderable) *out++ = count_ + index;
}

void Cpu::Impl::LogOrderable(MemoryModel model, std::vector<uint64_t>* counts) {
  orderable_ = counts;
  if (counts == nullptr) return;  // the blocks stay as they are: the next log will be of this model
  if (memory_model_ != model) ++breakpoints_version_;  // no run that is known holds
  memory_model_ = model;
  blocks_.SetMemoryModel(model);
}

}  // namespace hindsight
