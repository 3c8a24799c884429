// ThreadEngine: instructions a Cpu does not do, and faults.

#include <Zydis/Zydis.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "isa/host_registers.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread/answered_instructions.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/emulate/trap_flag.h"
#include "recorder/process/pid_namespace.h"

namespace hindsight {
namespace {

// A block has fewer instructions than this. If so many steps do not fault, the block as a whole did
// (code that rewrites itself), and no single instruction.
constexpr int kMaxBlockSteps = 4096;

bool IsFault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGTRAP || signal == SIGSYS;
}

// The trap of int1 cannot be told from that of a step, so it is not stepped: it traps anyhow.
ResumeHow HowToStep(const Instruction& instruction) {
  return instruction.mnemonic == ZYDIS_MNEMONIC_INT1 ? ResumeHow::kSyscall : ResumeHow::kStep;
}

}  // namespace

void ThreadEngine::OnSpecial() {
  const std::optional<Instruction> instruction = cpu_->next();
  if (!instruction.has_value()) {
    StepNatively(Instruction{}, /*reload_map=*/true);
    return;
  }
  if (instruction->policy == Policy::kSyscall) {
    RunSystemCall();
  } else if (IsAnswered(*instruction, engine_->may_forbid_tsc())) {
    Answer(*instruction);
  } else {
    // int 0x80 and the like make system calls.
    const bool may_call =
        instruction->policy == Policy::kPrivileged || instruction->mnemonic == ZYDIS_MNEMONIC_INT;
    StepNatively(*instruction, /*reload_map=*/may_call);
  }
}

void ThreadEngine::Answer(const Instruction& instruction) {
  Sync();
  const RegisterFile after =
      AnswerInstruction(instruction, engine_->session().options().cpu, sync_.registers());
  sync_.Transition(after, SideEffect{.kind = SideEffectKind::kInstruction});
}

void ThreadEngine::StepNatively(const Instruction& instruction, bool reload_map,
                                std::optional<TraceeStop> reported) {
  CommitToProcess();
  if (SetsTrapFlag(instruction, sync_.registers(), memory_.Reader())) {
    process_->LetGo(kTrapFlagReason);
    return;
  }
  int signal = 0;
  for (Instruction next = instruction;;) {
    const TraceeStop stop =
        reported.has_value() ? *std::move(reported) : ResumeAndWait(HowToStep(next), signal);
    reported.reset();
    signal = 0;
    switch (stop.kind) {
      case TraceeStopKind::kStepped:
        FinishStep(next, reload_map);
        return;
      case TraceeStopKind::kSignal:
        if (LogTrap(next)) next = Instruction{};
        SnapshotBeforeSignal(stop.signal);
        if (tracee_->signals().Catches(stop.signal)) {
          DeliverSignal(stop);
          return;
        }
        transitions_.Signal(stop);
        process_->NoteSignal(stop.signal);
        if (SurvivesFaultsWhileTraced(stop)) {
          process_->LetGo(
              "is the first of its namespace, which a fault does not kill while it is "
              "traced; it dies natively");
          return;
        }
        signal = stop.signal;
        break;
      case TraceeStopKind::kExited:
        OnExit(stop.wait_status);
        return;
      case TraceeStopKind::kGroupStop:
        // The instruction was not executed: it is tried again when the process goes on.
        OnGroupStop();
        return;
      case TraceeStopKind::kNewTask:
        OnNewTask(stop);
        break;
      default:
        break;
    }
  }
}

// A fault that is not caught kills any process but the first of a namespace that is traced: the
// kernel lets that one repeat its instruction for ever.
bool ThreadEngine::SurvivesFaultsWhileTraced(const TraceeStop& stop) const {
  siginfo_t info = {};
  std::memcpy(&info, stop.siginfo.data(), std::min(stop.siginfo.size(), sizeof(info)));
  return IsFault(stop.signal) && info.si_code > 0 && IsFirstOfNamespace(process_->pid());
}

// An instruction that raises a signal by being executed (int3), not by being impossible, comes
// before the signal.
bool ThreadEngine::LogTrap(const Instruction& instruction) {
  RegisterFile now;
  if (instruction.length == 0 || !tracee_->GetRegisters(/*vectors=*/false, &now)) return false;
  if (now.rip != sync_.registers().rip + instruction.length) return false;
  sync_.Transition(now, SideEffect{.kind = SideEffectKind::kInstruction});
  return true;
}

void ThreadEngine::FinishStep(const Instruction& instruction, bool reload_map) {
  RegisterFile after;
  const RegisterFile before = sync_.registers();
  if (!tracee_->GetRegisters(/*vectors=*/true, &after)) return;  // gone: the next stop reports that
  // The flags pushed have the trap flag, by which the thread was stepped.
  if (instruction.pushes_flags) ClearTrapFlagAt(after.gpr[kRsp], tracee_.get());
  // The trap comes after each iteration.
  const bool unfinished = instruction.rep && after.rip == sync_.registers().rip;
  const bool orderable = IsOrderable(instruction, engine_->session().memory_model());
  sync_.Transition(after, SideEffect{.kind = SideEffectKind::kInstruction,
                                     .sequence = orderable ? log_.NextSequence() : 0,
                                     .retired = !unfinished});
  if (reload_map) ReloadMap();
  if (instruction.writes_memory || instruction.length == 0 ||
      instruction.policy == Policy::kPrivileged) {
    memory_.ResyncAfterStep(before);
  } else {
    memory_.ResyncRseq();
  }
}

// An instruction of the block that began in state `block_count` could not be emulated: finds it,
// and has the thread execute it.
void ThreadEngine::OnFault(uint64_t block_count) {
  if (!RunBackTo(block_count)) {
    if (!tracee_->IsStopped()) OnVanished();
    return;
  }
  for (int i = 0; i < kMaxBlockSteps; ++i) {
    const uint64_t here = cpu_->count();
    const RunResult step = cpu_->Step();
    if (step.stop == Stop::kSpecial) return;
    if (step.stop != Stop::kFault) continue;
    const Instruction instruction = cpu_->next().value_or(Instruction{});
    // A REP has stored its first iterations; a store across two pages, of which the second was
    // refused, its first bytes.
    const bool uncached = pager_.IsUncached(step.fault_address);
    const bool partial = instruction.rep || step.fault_address % kPageBytes == 0 || uncached;
    if (partial && !RunBackTo(here)) {
      if (!tracee_->IsStopped()) OnVanished();
      return;
    }
    if (uncached && StepUncached(instruction)) return;
    StepNatively(instruction, /*reload_map=*/true);
    return;
  }
}

// Emulates an instruction that accesses uncached memory, with the contents of this moment. Atomic
// ones must be executed on the memory itself. False: it was not executed, and nothing has changed.
bool ThreadEngine::StepUncached(const Instruction& instruction) {
  if (instruction.locked) return false;
  Sync();
  pager_.OpenUncached();
  const RunResult step = cpu_->Step();
  const bool done = step.stop == Stop::kLimit;
  if (!done) sync_.GoBack();
  Sync();
  pager_.CloseUncached();
  if (done && instruction.writes_memory) pager_.ResyncSeenTwice();
  return done;
}

bool ThreadEngine::RunBackTo(uint64_t count) {
  const absl::StatusOr<bool> met = sync_.RunBackTo(count);
  engine_->session().Keep(met.status());
  return met.ok() && *met;
}

}  // namespace hindsight
