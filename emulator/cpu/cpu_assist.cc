// Runs outside the engines: assisted instructions, and bridge instructions between them.

#include "emulator/cpu/cpu_impl.h"

namespace hindsight {
namespace {

// Moving the registers to the engine and back costs as much as some thirty steps.
constexpr uint32_t kMaxBridges = 32;

}  // namespace

// The block at pc if it is known that the engine would stop before it: then there is no need to
// give the engine the registers for that.
const Block* Cpu::Impl::BlockToStep() {
  constexpr uint16_t kStepped = Block::kSpecial | Block::kBreakpoint | Block::kFloating;
  const Block* block = code_.blocks().FindAt(registers_.pc());
  const bool steps = block != nullptr && block->epoch == code_.epoch() &&
                     (filter_.StopsAt(*block) & kStepped) != 0;
  return steps ? block : nullptr;
}

// The instruction at `pc`, decoded if it is not known. Valid until the next one is decoded.
const Instruction* Cpu::Impl::DecodeOnce(uint64_t pc) {
  if (const Instruction* const known = code_.Known(pc)) return known;
  return Decode(pc).has_value() ? code_.Known(pc) : nullptr;
}

// Whether the instruction at pc is executed outside the engine, and should be: `bridges` counts the
// bridge instructions since the last assisted one.
bool Cpu::Impl::StepsOutside(uint32_t* bridges) {
  const Instruction* const instruction = DecodeOnce(registers_.pc());
  if (instruction == nullptr) return false;
  if (assist_.MustAssist(*instruction)) {
    *bridges = 0;
    return true;
  }
  return assist_.MayBridge(*instruction) && ++*bridges < kMaxBridges;
}

// Executes runs from pc on. False: it is the engine's turn, or an instruction must be stepped.
bool Cpu::Impl::RunOutside(const RunOptions& options) {
  if (!UsesRuns() || (!registers_.engine_is_behind() && BlockToStep() == nullptr)) return false;
  const uint64_t begin = progress_.count();
  for (uint32_t bridges = 0;;) {
    if (progress_.stop_requested() || code_.has_pending()) break;
    const AssistedRuns::Run& run = assist_.Find(registers_.pc(), orderable_.model(),
                                                [this](uint64_t pc) { return DecodeOnce(pc); });
    const uint64_t size = run.steps.size();
    if (size == 0 || progress_.count() + size > options.limit) break;
    bridges = run.assisted ? 0 : bridges + static_cast<uint32_t>(size);
    if (!run.assisted && (!registers_.engine_is_behind() || bridges > kMaxBridges)) return false;
    if (!ExecuteRun(run)) break;
  }
  return progress_.count() != begin;
}

// False if it was not executed to its end.
bool Cpu::Impl::ExecuteRun(const AssistedRuns::Run& run) {
  RegisterFile* const registers = registers_.Borrow();
  InstructionExecutor& executor = assist_.executor();
  stop_.fault = false;
  mode_ = Mode::kAssist;
  const uint64_t code_writes = code_.writes();
  const uint64_t count = progress_.count();
  size_t done = 0;
  for (const AssistedRuns::Run::Step& step : run.steps) {
    if (executor.Execute(*step.prepared, registers, &memory_) != ExecutionResult::kDone) break;
    if (step.orderable && orderable_.active()) orderable_.Add(count + done);
    ++done;
    // What comes next may have changed.
    if (code_.has_pending() || code_.writes() != code_writes) break;
  }
  mode_ = Mode::kIdle;
  progress_.Advance(done);
  if (done != 0) registers_.MarkChanged();
  if (done != run.steps.size()) return false;
  if (run.steps.back().sets_float_control) NoteControl(*registers);
  return true;
}

}  // namespace hindsight
