// Instructions that are executed here instead of by the engine: assisted ones, and bridge
// instructions between them.

#include <utility>

#include "emulator/cpu/cpu_impl.h"

namespace hindsight {
namespace {

// The engine's registers there and back cost as much as some thirty steps.
constexpr uint32_t kMaxBridges = 32;

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace

// Assisted instructions change registers_ only; the engine gets them when it runs again.
void Cpu::Impl::UpdateEngine() {
  if (!engine_stale_) return;
  engine_->Store(registers_);
  engine_stale_ = false;
}

// The block at pc if it is known that the engine would stop before it: then there is no need to
// give the engine the registers for that.
const Block* Cpu::Impl::BlockToStep() {
  const Block* block = blocks_.FindAt(pc_);
  const bool steps =
      block != nullptr && block->epoch == epoch_ &&
      (block->flags & stop_flags_ & (Block::kSpecial | Block::kBreakpoint | Block::kFloating)) != 0;
  return steps ? block : nullptr;
}

// Whether the instruction at pc is executed without the engine, and should be: `bridges` counts the
// bridge instructions since the last assisted one.
bool Cpu::Impl::StepsHere(uint32_t* bridges) {
  const Instruction* instruction = KnownNext();
  if (instruction == nullptr && next().has_value()) instruction = KnownNext();
  if (instruction == nullptr) return false;
  if (BelongsHere(*instruction)) {
    *bridges = 0;
    return true;
  }
  return bridges_here_ && instruction->bridge && ++*bridges < kMaxBridges;
}

// next(), if it is known already. Valid until the next one is decoded.
const Instruction* Cpu::Impl::KnownNext() {
  const DecodedSlot& slot = decoded_[pc_ & (decoded_.size() - 1)];
  const uint64_t page = PageOf(pc_);
  const bool known = slot.pc == pc_ && slot.version == code_version_ && view_.is_code(page) &&
                     view_.rights(page) != PageRights::kNone;
  return known ? &slot.instruction : nullptr;
}

// nullptr: cannot be executed here.
const InstructionExecutor::Prepared* Cpu::Impl::PrepareAssist(const Instruction& instruction) {
  constexpr size_t kLongest = 15;
  const uint64_t page = PageOf(pc_);
  AssistSlot& slot = assist_slots_[pc_ & (assist_slots_.size() - 1)];
  // Elsewhere than on a code page the same address need not hold the same bytes.
  const bool settled = view_.is_code(page);
  if (settled && slot.pc == pc_ && slot.version == code_version_) [[likely]]
    return slot.prepared;
  uint8_t bytes[kLongest];
  const auto code = absl::MakeSpan(bytes, instruction.length);
  if (!view_.ReadHeld(pc_, code)) return nullptr;
  const InstructionExecutor::Prepared* prepared = &executor_.Prepare(code);
  if (prepared->method == InstructionExecutor::Method::kNone) prepared = nullptr;
  if (settled && pc_ + instruction.length <= page + kPageBytes) {
    slot = {pc_, code_version_, prepared};
  }
  return prepared;
}

ExecutionResult Cpu::Impl::AssistStep(const InstructionExecutor::Prepared& prepared) {
  mode_ = Mode::kAssist;
  registers();
  const ExecutionResult result = executor_.Execute(prepared, &registers_, this);
  if (result == ExecutionResult::kDone) {
    engine_stale_ = true;
    pc_ = registers_.rip;
  }
  return result;
}

// The straight run of instructions at pc that are all executed here, on one page, up to a jump or a
// breakpoint.
const Cpu::Impl::HereRun& Cpu::Impl::FindRun() {
  constexpr size_t kMaxSteps = 64;
  const uint64_t start = pc_, page = PageOf(start);
  HereRun& run = runs_[start & (runs_.size() - 1)];
  const bool settled = view_.is_code(page) && view_.rights(page) != PageRights::kNone;
  if (settled && run.pc == start && run.version == code_version_ &&
      run.breakpoints_version == breakpoints_version_ && run.floats_here == floats_here_)
      [[likely]] {
    return run;
  }
  run.steps.clear();
  run.assisted = false;
  while (run.steps.size() < kMaxSteps && PageOf(pc_) == page && !breakpoints_.contains(pc_)) {
    const Instruction* instruction = KnownNext();
    if (instruction == nullptr && next().has_value()) instruction = KnownNext();
    if (instruction == nullptr) break;
    const bool assist = BelongsHere(*instruction);
    if (!assist && !instruction->bridge) break;
    const InstructionExecutor::Prepared* const prepared = PrepareAssist(*instruction);
    if (prepared == nullptr) break;
    run.assisted |= assist;
    run.steps.push_back(
        {prepared, IsOrderable(*instruction, memory_model_), instruction->sets_float_control});
    pc_ += instruction->length;
    if (instruction->control_flow || instruction->sets_float_control) break;
  }
  pc_ = start;
  run.pc = start;
  run.version = code_version_;
  run.breakpoints_version = breakpoints_version_;
  run.floats_here = floats_here_;
  return run;
}

// Executes runs from pc on. False: the engine is next, or stepping.
bool Cpu::Impl::RunHere(const RunOptions& options) {
  if (!UsesRuns() || (!engine_stale_ && BlockToStep() == nullptr)) return false;
  const uint64_t begin = count_;
  for (uint32_t bridges = 0;;) {
    if (stop_requested_.load(std::memory_order_relaxed) || !pending_drops_.empty()) break;
    const HereRun& run = FindRun();
    const uint64_t size = run.steps.size();
    if (size == 0 || count_ + size > options.limit) break;
    bridges = run.assisted ? 0 : bridges + static_cast<uint32_t>(size);
    if (!run.assisted && (!engine_stale_ || bridges > kMaxBridges)) return false;
    if (!ExecuteRun(run)) break;
  }
  return count_ != begin;
}

// False if it was not executed to its end.
bool Cpu::Impl::ExecuteRun(const HereRun& run) {
  registers();
  fault_ = false;
  mode_ = Mode::kAssist;
  const uint64_t code_writes = code_writes_;
  size_t done = 0;
  for (const HereRun::Step& step : run.steps) {
    if (executor_.Execute(*step.prepared, &registers_, this) != ExecutionResult::kDone) break;
    if (step.orderable && orderable_ != nullptr) orderable_->push_back(count_ + done);
    ++done;
    if (!pending_drops_.empty() || code_writes_ != code_writes) break;  // perhaps what comes next
  }
  mode_ = Mode::kIdle;
  count_ += done;
  engine_stale_ |= done != 0;
  pc_ = registers_.rip;
  if (done == run.steps.size() && run.steps.back().sets_float_control) {
    NoteFloatControl(registers_);
  }
  return done == run.steps.size();
}

}  // namespace hindsight
