// Single instructions: each is executed outside the engines, or in one under the trap flag, or, if
// it is repeated, in one iteration by iteration.

#include <array>

#include "emulator/code/x87_stack.h"
#include "emulator/cpu/cpu_impl.h"
#include "isa/alignment.h"

namespace hindsight {
namespace {

constexpr uint64_t kTrapFlag = 0x100;

}  // namespace

RunResult Cpu::Impl::StepOne() {
  if (code_.has_pending()) ApplyPending();
  lacking_ = {};
  std::optional<Instruction> decoded;
  const Instruction* instruction = code_.Known(registers_.pc());
  if (instruction == nullptr) {
    decoded = Decode(registers_.pc());
    if (!decoded.has_value()) return Fault(progress_.count());
    instruction = &*decoded;
  }
  if (instruction->policy != Policy::kEmulate && instruction->policy != Policy::kAssist) {
    return {.stop = Stop::kSpecial};
  }
  const uint64_t before = progress_.count();
  code_.NoteStep(registers_.pc());
  stop_.fault = false;
  memory_.set_fault_address(0);
  watch_hit_ = false;
  stores_.clear();
  const bool is_orderable = orderable_.active() && IsOrderable(*instruction, orderable_.model());
  const Outcome outcome = Execute(*instruction);
  mode_ = Mode::kIdle;
  if (outcome == Outcome::kNotHere) return {.stop = Stop::kSpecial};
  if (outcome == Outcome::kFaults) return Fault(before);
  progress_.Advance(1);
  if (is_orderable) orderable_.Add(before);
  return {.stop = watch_hit_ ? Stop::kWatch : Stop::kLimit};
}

// `instruction` may be void afterwards.
Cpu::Impl::Outcome Cpu::Impl::Execute(const Instruction& instruction) {
  const bool must = assist_.MustAssist(instruction);
  const bool outside = must || assist_.MayBridge(instruction) || FcmovFaults(instruction);
  const InstructionExecutor::Prepared* const prepared =
      outside ? assist_.Prepare(registers_.pc(), instruction) : nullptr;
  // One of the few that cannot be encoded for the host: the process itself can do it.
  if (prepared == nullptr && must) return Outcome::kNotHere;
  const bool checked =
      checks_accesses() || (alignment_.checked && instruction.aligned && prepared == nullptr);
  if (checked && !IsAligned(instruction)) return Outcome::kFaults;
  if (prepared == nullptr) {
    const bool done = instruction.rep ? RepStep(instruction) : TrapStep(instruction);
    return done ? Outcome::kDone : Outcome::kFaults;
  }
  const bool sets_float_control = instruction.sets_float_control;
  switch (AssistStep(*prepared)) {
    case ExecutionResult::kLacksFeatures:
      lacking_ = assist_.executor().lacking();
      return Outcome::kNotHere;
    case ExecutionResult::kFaults:
      return Outcome::kFaults;
    case ExecutionResult::kDone:
      if (sets_float_control) NoteControl(registers_.registers());
      return Outcome::kDone;
  }
  return Outcome::kFaults;
}

ExecutionResult Cpu::Impl::AssistStep(const InstructionExecutor::Prepared& prepared) {
  mode_ = Mode::kAssist;
  const ExecutionResult result =
      assist_.executor().Execute(prepared, registers_.Borrow(), &memory_);
  if (result == ExecutionResult::kDone) registers_.MarkChanged();
  return result;
}

bool Cpu::Impl::TrapStep(const Instruction& instruction) {
  const bool pushes_flags = instruction.pushes_flags;
  mode_ = Mode::kTrapStep;
  if (!registers_.TrapStep(instruction.kept_gpr, stop_.fault)) return false;
  if (pushes_flags) {
    // The copy of the flags just pushed shows our trap flag.
    const uint64_t address = registers_.registers().gpr[kRsp] + 1;
    uint8_t* const page = memory_.view().HostPage(PageOf(address));
    page[address % kPageBytes] &= static_cast<uint8_t>(~(kTrapFlag >> 8));
  }
  return true;
}

// A REP instruction is a block of its own that Unicorn runs once per iteration.
bool Cpu::Impl::RepStep(const Instruction& instruction) {
  const uint64_t start = registers_.pc();
  registers_.SyncEngine();
  registers_.engine()->SaveContext();
  stop_ = {};
  progress_.StartRep();
  takeover_ = {.step_at_once = instruction.rep_at_once};
  mode_ = Mode::kRepStep;
  UnicornEngine::Exit exit = registers_.Start();
  mode_ = Mode::kIdle;
  ApplyPending();
  // Done, and what follows lies in another chunk.
  if (exit == UnicornEngine::Exit::kNewChunk && registers_.pc() != start) {
    exit = UnicornEngine::Exit::kStopped;
  }
  if (!stop_.fault && exit == UnicornEngine::Exit::kStopped && (!takeover_.taken || FinishRep())) {
    return true;
  }
  registers_.Restore(start);
  return false;
}

// The engine was stopped before an iteration of the REP instruction at pc: executes those left.
// False if one faults.
bool Cpu::Impl::FinishRep() {
  takeover_.taken = false;
  const std::optional<Instruction> instruction = Decode(registers_.pc());
  const InstructionExecutor::Prepared* const prepared =
      instruction.has_value() ? assist_.Prepare(registers_.pc(), *instruction) : nullptr;
  if (prepared == nullptr) return false;
  const bool done = AssistStep(*prepared) == ExecutionResult::kDone;
  mode_ = Mode::kIdle;
  return done;
}

// Whether the instruction at pc is an fcmov that faults: an engine does not notice.
bool Cpu::Impl::FcmovFaults(const Instruction& instruction) {
  if (!MovesX87Conditionally(instruction.mnemonic)) return false;
  std::array<uint8_t, 15> bytes;
  const auto code = absl::MakeSpan(bytes.data(), instruction.length);
  if (!memory_.view().ReadHeld(registers_.pc(), code)) return false;
  return ReadsEmptyRegister(code, registers_.registers());
}

// Of the operands of the instruction at pc that must be aligned.
bool Cpu::Impl::IsAligned(const Instruction& instruction) {
  std::array<uint8_t, 15> bytes;
  const auto code = absl::MakeSpan(bytes.data(), instruction.length);
  const uint64_t pc = registers_.pc();
  if (!memory_.view().ReadHeld(pc, code)) return true;
  const RegisterFile& now = registers_.registers();
  if (checks_accesses()) return AccessesAreAligned(pc, code, now.gpr, now.fs_base, now.gs_base);
  return OperandIsAligned(pc, code, now.gpr, now.fs_base, now.gs_base);
}

}  // namespace hindsight
