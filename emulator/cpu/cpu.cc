#include "emulator/cpu/cpu.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "emulator/cpu/cpu_impl.h"
#include "emulator/float/float_helpers.h"
#include "isa/float_control.h"
#include "isa/operand_address.h"

namespace hindsight {
namespace {

constexpr uint64_t kAlignmentCheck = 1 << 18;  // in RFLAGS

}  // namespace

absl::Status Cpu::Impl::Open() {
  ASSIGN_OR_RETURN(plain_, UnicornEngine::Create(&view_, this, BlockHook, /*watch=*/false));
  engine_ = plain_.get();
  return absl::OkStatus();
}

const RegisterFile& Cpu::Impl::registers() {
  if (!registers_loaded_) {
    engine_->Load(&registers_);
    registers_loaded_ = true;
  }
  registers_.rip = pc_;
  return registers_;
}

void Cpu::Impl::SetRegisters(const RegisterFile& registers) {
  engine_->Store(registers);
  engine_stale_ = false;
  registers_ = registers;
  // Read back what the engine made of them: bits it does not keep must not appear and vanish.
  registers_loaded_ = false;
  pc_ = registers.rip;
  wants_aligned_ = (registers.rflags & kAlignmentCheck) != 0;
  NoteFloatControl(registers);
}

void Cpu::Impl::NoteFloatControl(const RegisterFile& registers) {
  floats_here_ = HasUnusualFloatControl(registers) || !FloatHelpersInUse();
  const uint16_t flag = floats_here_ ? Block::kFloating : 0;
  stop_flags_ = (stop_flags_ & ~Block::kFloating) | flag;
  slow_flags_ = (slow_flags_ & ~Block::kFloating) | flag;
}

absl::Status Cpu::Impl::SelectEngine() {
  UnicornEngine* wanted = plain_.get();
  if (!watchpoints_.empty()) {
    if (watching_ == nullptr) {
      ASSIGN_OR_RETURN(watching_, UnicornEngine::Create(&view_, this, BlockHook, /*watch=*/true));
    }
    wanted = watching_.get();
  }
  if (wanted != engine_) {
    RegisterFile current = registers();
    engine_ = wanted;
    SetRegisters(current);
  }
  return absl::OkStatus();
}

void Cpu::Impl::SetCount(uint64_t count) {
  work_offset_ += count_ - count;
  count_ = count;
}

void Cpu::Impl::Recycle(Pager* pager) {
  pager_ = pager;
  view_.DropAllRights();
  ++epoch_;
  SetBreakpoints({});
  SetWatchpoints({});
  orderable_ = nullptr;
  stop_requested_ = false;
  SetCount(0);
  executor_.ForgetUsed();
}

void Cpu::Impl::CheckAlignment() {
  checks_alignment_ = true;
  blocks_.CheckAlignment();
}

RunResult Cpu::Impl::Fault(uint64_t block_count) {
  // Backward, for a page may have been poisoned twice.
  for (auto poisoned = poisoned_.rbegin(); poisoned != poisoned_.rend(); ++poisoned) {
    std::memcpy(view_.HostPage(poisoned->page), poisoned->contents.data(), kPageBytes);
    DropPage(poisoned->page);  // garbage may have been translated
    if (!poisoned->new_chunk) continue;
    code_pages_.Forget(poisoned->page);
    view_.RemoveChunk(poisoned->page & ~(View::kChunkBytes - 1));
  }
  poisoned_.clear();
  fault_ = false;
  while (orderable_ != nullptr && !orderable_->empty() && orderable_->back() >= block_count) {
    orderable_->pop_back();
  }
  return {.stop = Stop::kFault, .block_count = block_count, .fault_address = fault_address_};
}

RunResult Cpu::Impl::Run(const RunOptions& options) {
  if (!SelectEngine().ok()) return Fault(count_);
  FaultScope scope(this);
  log_ = options.log_hits;
  exact_limit_ = options.exact_limit;
  stop_flags_ = Block::kSpecial | Block::kStepOnly | Block::kStepHere;
  if (log_ == nullptr) stop_flags_ |= Block::kBreakpoint;
  if (floats_here_) stop_flags_ |= Block::kFloating;
  if (checks_alignment_) stop_flags_ |= Block::kUnchecked;
  slow_flags_ = stop_flags_ | Block::kBreakpoint | Block::kGuarded;
  if (orderable_ != nullptr) slow_flags_ |= Block::kOrderable;
  fault_address_ = 0;
  if (options.skip_first_breakpoint && log_ == nullptr && count_ < options.limit &&
      breakpoints_.contains(pc_)) {
    RunResult step = StepOne();
    if (step.stop != Stop::kLimit) return step;
  }
  for (;;) {
    if (count_ >= options.limit || stop_requested_.exchange(false)) return {};
    if (std::optional<RunResult> result = RunBlocks(options)) return *result;
  }
}

// One uc_emu_start, and the block it was stopped at. nullopt: go on.
std::optional<RunResult> Cpu::Impl::RunBlocks(const RunOptions& options) {
  ApplyPendingDrops();
  if (checks_accesses()) return StepThrough(Block{.address = pc_}, options);
  if (RunHere(options)) return std::nullopt;
  ApplyPendingDrops();
  if (const Block* block = BlockToStep()) return StepThrough(*block, options);
  blocked_ = nullptr;
  recheck_ = false;
  fault_ = false;
  running_rep_ = Block::kNoAddress;
  rep_looked_at_ = ~uint64_t{0};
  rep_taken_over_ = false;
  block_start_count_ = count_;
  block_size_ = 0;
  effective_limit_.store(options.limit, std::memory_order_relaxed);
  if (stop_requested_.load()) ForceExit();

  UpdateEngine();
  mode_ = Mode::kBlocks;
  UnicornEngine::Exit exit = engine_->Start(pc_);
  mode_ = Mode::kIdle;
  registers_loaded_ = false;
  pc_ = engine_->pc();
  const bool dropped = !pending_drops_.empty();
  ApplyPendingDrops();
  if (exit == UnicornEngine::Exit::kNewChunk) {
    recheck_ = true;
    exit = UnicornEngine::Exit::kStopped;
  }
  if (fault_ || exit != UnicornEngine::Exit::kStopped) return Fault(block_start_count_);
  if (rep_taken_over_) {
    if (!FinishRep()) return Fault(block_start_count_);
    return std::nullopt;
  }
  if (recheck_) {
    if (!next().has_value()) return Fault(count_);
    return std::nullopt;
  }
  // Stopped, but not by us: an instruction Unicorn rejects, though we thought it would not.
  if (blocked_ == nullptr) return Fault(block_start_count_);
  if (dropped) return std::nullopt;  // perhaps the block as well
  if (count_ >= options.limit || stop_requested_.load()) return std::nullopt;
  return StepThrough(*blocked_, options);
}

// Executes the block at pc, which must not be run through, instruction by instruction; and what
// comes behind it as long as that is quicker than giving the engine the registers and taking them
// back.
std::optional<RunResult> Cpu::Impl::StepThrough(const Block& block, const RunOptions& options) {
  // The block may be forgotten while stepping.
  const uint64_t begin = block.address, end = block.address + block.size;
  uint32_t left = block.instructions == 0 ? 1 : block.instructions;
  for (uint32_t bridges = 0;;) {
    if (count_ >= options.limit) return RunResult{};
    if (breakpoints_.contains(pc_)) {
      if (log_ == nullptr) return RunResult{.stop = Stop::kBreakpoint};
      ++log_->breakpoint_hits;
      log_->last_breakpoint_count = count_;
    }
    const uint64_t before = count_;
    const RunResult step = StepOne();
    if (step.stop == Stop::kWatch) {
      if (log_ == nullptr) return Fault(before);
      ++log_->watch_hits;
      log_->last_watch_block_count = before;
      log_->last_watch_block_end = count_;
    } else if (step.stop != Stop::kLimit) {
      return step;
    }
    if (!pending_drops_.empty() || stop_requested_.load(std::memory_order_relaxed)) break;
    if (left > 0) --left;
    if (left > 0 && pc_ >= begin && pc_ < end) continue;
    left = 0;
    if (!engine_stale_ || UsesRuns() || !StepsHere(&bridges)) break;
  }
  return std::nullopt;
}

RunResult Cpu::Impl::Step() {
  if (!SelectEngine().ok()) return Fault(count_);
  FaultScope scope(this);
  log_ = nullptr;
  return StepOne();
}

RunResult Cpu::Impl::StepOne() {
  if (!pending_drops_.empty()) ApplyPendingDrops();
  lacking_ = {};
  std::optional<Instruction> decoded;
  const Instruction* instruction = KnownNext();
  if (instruction == nullptr) {
    decoded = next();
    if (!decoded.has_value()) return Fault(count_);
    instruction = &*decoded;
  }
  const bool assist = instruction->policy == Policy::kAssist;
  if (!assist && instruction->policy != Policy::kEmulate) return {.stop = Stop::kSpecial};
  code_pages_.NoteStep(pc_ & ~(kPageBytes - 1));
  fault_ = false;
  fault_address_ = 0;
  watch_hit_ = false;
  uint64_t before = count_;
  bool ok;
  const bool here = BelongsHere(*instruction) || (bridges_here_ && instruction->bridge) ||
                    FcmovFaults(*instruction);
  const InstructionExecutor::Prepared* prepared = here ? PrepareAssist(*instruction) : nullptr;
  // One of the few that cannot be encoded for the host: the process itself can do it.
  if (prepared == nullptr && BelongsHere(*instruction)) return {.stop = Stop::kSpecial};
  const bool looks =
      checks_accesses() || (checks_alignment_ && instruction->aligned && prepared == nullptr);
  if (looks && !NextIsAligned(*instruction)) {
    ok = false;
  } else if (prepared != nullptr) {
    const ExecutionResult result = AssistStep(*prepared);
    if (result == ExecutionResult::kLacksFeatures) {
      mode_ = Mode::kIdle;
      lacking_ = executor_.lacking();
      return {.stop = Stop::kSpecial};
    }
    ok = result == ExecutionResult::kDone;
    if (ok && instruction->sets_float_control) NoteFloatControl(registers_);
  } else {
    ok = instruction->rep ? RepStep(*instruction) : TrapStep(*instruction);
  }
  mode_ = Mode::kIdle;
  if (!ok) {
    count_ = before;
    return Fault(before);
  }
  count_ = before + 1;
  if (orderable_ != nullptr && IsOrderable(*instruction, memory_model_)) {
    orderable_->push_back(before);
  }
  return {.stop = watch_hit_ ? Stop::kWatch : Stop::kLimit};
}

// Steps with the trap flag: translations made under it are kept apart from the others by Unicorn,
// which does not hold for uc_emu_start's count.
bool Cpu::Impl::TrapStep(const Instruction& instruction) {
  constexpr uint64_t kTrapFlag = 0x100, kZeroFlag = 0x40;
  uint64_t start = pc_;
  UpdateEngine();
  const bool may_keep = instruction.kept_gpr != kNoGpr;
  const uint64_t kept = may_keep ? engine_->ReadGpr(instruction.kept_gpr) : 0;
  engine_->SaveContext();
  engine_->WriteFlags(engine_->ReadFlags() | kTrapFlag);
  mode_ = Mode::kTrapStep;
  UnicornEngine::Exit exit = engine_->Start(pc_);
  registers_loaded_ = false;
  if (fault_ || exit != UnicornEngine::Exit::kTrap) {
    engine_->RestoreContext();
    pc_ = start;
    return false;
  }
  if (!IsCanonical(engine_->pc())) {
    // The hardware does not jump there, Unicorn does.
    engine_->RestoreContext();
    pc_ = start;
    return false;
  }
  const uint64_t flags = engine_->ReadFlags();
  engine_->WriteFlags(flags & ~kTrapFlag);
  pc_ = engine_->pc();
  if (may_keep && (flags & kZeroFlag) != 0) engine_->WriteGpr(instruction.kept_gpr, kept);
  if (instruction.pushes_flags) {
    // The copy of the flags just pushed shows our trap flag.
    uint64_t address = registers().gpr[kRsp] + 1;
    uint8_t* page = view_.HostPage(address & ~(kPageBytes - 1));
    page[address % kPageBytes] &= static_cast<uint8_t>(~(kTrapFlag >> 8));
  }
  return true;
}

// A REP instruction is a block of its own that Unicorn runs once per iteration.
bool Cpu::Impl::RepStep(const Instruction& instruction) {
  uint64_t start = pc_;
  UpdateEngine();
  engine_->SaveContext();
  blocked_ = nullptr;
  recheck_ = false;
  running_rep_ = Block::kNoAddress;
  rep_looked_at_ = ~uint64_t{0};
  rep_step_at_once_ = instruction.rep_at_once;
  rep_taken_over_ = false;
  block_size_ = 0;
  mode_ = Mode::kRepStep;
  UnicornEngine::Exit exit = engine_->Start(pc_);
  registers_loaded_ = false;
  pc_ = engine_->pc();
  mode_ = Mode::kIdle;
  ApplyPendingDrops();
  // Done, and what is behind it lies in another chunk.
  if (exit == UnicornEngine::Exit::kNewChunk && pc_ != start) exit = UnicornEngine::Exit::kStopped;
  if (fault_ || exit != UnicornEngine::Exit::kStopped || (rep_taken_over_ && !FinishRep())) {
    engine_->RestoreContext();
    registers_loaded_ = false;
    pc_ = start;
    return false;
  }
  return true;
}

// The engine was stopped before an iteration of the REP instruction at pc: executes those left.
// False if one faults.
bool Cpu::Impl::FinishRep() {
  rep_taken_over_ = false;
  const std::optional<Instruction> instruction = next();
  const InstructionExecutor::Prepared* const prepared =
      instruction.has_value() ? PrepareAssist(*instruction) : nullptr;
  if (prepared == nullptr) return false;
  const bool done = AssistStep(*prepared) == ExecutionResult::kDone;
  mode_ = Mode::kIdle;
  return done;
}

void Cpu::Impl::RequestStop() {
  stop_requested_.store(true);
  ForceExit();
}

Cpu::Cpu(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cpu::~Cpu() = default;

absl::StatusOr<std::unique_ptr<Cpu>> Cpu::Create(Pager* pager) {
  auto impl = std::make_unique<Impl>(pager);
  RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<Cpu>(new Cpu(std::move(impl)));
}

const RegisterFile& Cpu::registers() { return impl_->registers(); }
void Cpu::SetRegisters(const RegisterFile& registers) { impl_->SetRegisters(registers); }
uint64_t Cpu::pc() { return impl_->pc_; }
uint64_t Cpu::count() const { return impl_->count_; }
void Cpu::set_count(uint64_t count) { impl_->SetCount(count); }
uint8_t* Cpu::HostPage(uint64_t page) { return impl_->view_.HostPage(page); }
PageRights Cpu::rights(uint64_t page) const { return impl_->view_.rights(page); }
void Cpu::SetRights(uint64_t page, PageRights rights) { impl_->SetRights(page, rights); }
void Cpu::ProtectWrites(absl::Span<const uint64_t> pages) { impl_->view_.ProtectWrites(pages); }
void Cpu::DropRights(absl::Span<const uint64_t> pages) { impl_->DropRights(pages); }
void Cpu::Release(absl::Span<const uint64_t> pages) { impl_->Release(pages); }
void Cpu::ReleaseChunk(uint64_t base) { impl_->ReleaseChunk(base); }
void Cpu::ContentsChanged(uint64_t page, uint64_t lines) { impl_->ContentsChanged(page, lines); }
bool Cpu::ReadHeld(uint64_t address, absl::Span<uint8_t> out) const {
  return impl_->view_.ReadHeld(address, out);
}
void Cpu::Recycle(Pager* pager) { impl_->Recycle(pager); }
RunResult Cpu::Run(const RunOptions& options) { return impl_->Run(options); }
RunResult Cpu::Step() { return impl_->Step(); }
std::optional<Instruction> Cpu::next() { return impl_->next(); }
void Cpu::RequestStop() { impl_->RequestStop(); }
void Cpu::SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses) {
  impl_->SetBreakpoints(addresses);
}
void Cpu::SetWatchpoints(const std::vector<Watchpoint>& watchpoints) {
  impl_->SetWatchpoints(watchpoints);
}
void Cpu::LogOrderable(MemoryModel model, std::vector<uint64_t>* counts) {
  impl_->LogOrderable(model, counts);
}
void Cpu::CheckAlignment() { impl_->CheckAlignment(); }
size_t Cpu::hit_watchpoint() const { return impl_->hit_watchpoint_; }
uint64_t Cpu::hit_address() const { return impl_->hit_address_; }

HostFeatures Cpu::features_used() const { return impl_->executor_.used(); }
HostFeatures Cpu::features_lacking() const { return impl_->lacking_; }
void Cpu::LeaveBridgesToUnicorn() { impl_->bridges_here_ = false; }
void Cpu::SetHostFeatures(HostFeatures features) { impl_->executor_.SetHostFeatures(features); }

std::unique_ptr<Cpu::SavedState> Cpu::Save() {
  auto state = std::make_unique<SavedState>();
  state->registers = impl_->registers();
  state->count = impl_->count_;
  return state;
}

void Cpu::Restore(const SavedState& state) {
  impl_->SetRegisters(state.registers);
  impl_->SetCount(state.count);
}

}  // namespace hindsight
