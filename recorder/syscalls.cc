// Engine: system calls.

#include <sys/syscall.h>

#include <utility>

#include "recorder/engine.h"
#include "recorder/process_facts.h"

namespace hindsight {

NewTask Engine::TaskMadeByCall(const SystemCall& call) {
  uint64_t flags = 0;
  if (call.number == SYS_clone3) {
    const auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(&flags), sizeof(flags));
    if (!cpu_->ReadHeld(call.arguments[0], bytes)) tracee_->Read(call.arguments[0], bytes);
  }
  return TaskMadeBy(call.number, call.arguments, flags);
}

// Runs the system call at pc in the process. Signals may come before it, or instead of its end.
void Engine::RunSystemCall() {
  const RegisterFile& at = cpu_->registers();
  SystemCall call = {.number = static_cast<int64_t>(at.gpr[kRax]),
                     .arguments = {at.gpr[kRdi], at.gpr[kRsi], at.gpr[kRdx], at.gpr[kR10],
                                   at.gpr[kR8], at.gpr[kR9]}};
  const NewTask task = TaskMadeByCall(call);
  if (task != NewTask::kNone) {
    LeaveAlone(task == NewTask::kThread ? "created a second thread" : "created a second process");
    return;
  }
  ToProcess();
  bool inside = false, interrupted = false;
  int signal = 0;
  while (true) {
    TraceeStop stop = ResumeAndWait(ResumeHow::kSyscall, signal);
    signal = 0;
    switch (stop.kind) {
      case TraceeStopKind::kSyscall:
        inside = !inside;
        interrupted = false;
        if (inside) break;
        if (OnSystemCallExit(&call)) return;
        interrupted = true;
        break;
      case TraceeStopKind::kSignal:
        if (tracee_->Catches(stop.signal)) {
          DeliverSignal(std::move(stop), interrupted ? &call : nullptr);
          return;
        }
        signal = stop.signal;
        if (interrupted) {
          call.passed_on.push_back(std::move(stop));
        } else {
          NoteSignal(stop, cpu_->registers());
        }
        break;
      case TraceeStopKind::kExec:
        call.exec = true;
        break;
      case TraceeStopKind::kExited:
        for (const TraceeStop& earlier : call.passed_on) NoteSignal(earlier, cpu_->registers());
        OnExit(stop.wait_status);
        return;
      default:
        break;
    }
  }
}

// False if the call was interrupted, and what becomes of it shows later.
bool Engine::OnSystemCallExit(SystemCall* call) {
  const bool everything = call->number == SYS_rt_sigreturn || call->exec;
  RegisterFile after;
  if (!tracee_->GetRegisters(everything, &after)) return false;  // gone
  const auto result = static_cast<int64_t>(after.gpr[kRax]);
  if (IsRestartCode(result) && call->number != SYS_rt_sigreturn) return false;
  if (call->exec) {
    FinishExec(*call);
  } else {
    FinishSystemCall(*call);
  }
  for (const TraceeStop& earlier : call->passed_on) {
    if (!ended_) NoteSignal(earlier, cpu_->registers());
  }
  return true;
}

void Engine::FinishSystemCall(const SystemCall& call) {
  after_call_ = true;
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/false, &after)) return;
  const uint64_t sequence = log_.NextSequence();
  const auto result = static_cast<int64_t>(after.gpr[kRax]);
  Transition(after, SideEffect{.kind = SideEffectKind::kSyscall, .sequence = sequence});
  log_.Event({.kind = EventKind::kSyscall,
              .sequence = sequence,
              .count = cpu_->count(),
              .number = call.number,
              .arguments = std::vector<uint64_t>(call.arguments, call.arguments + 6),
              .result = result});
  if (MayChangeSignalMask(call.number)) tracee_->ForgetSignalMask();
  if (StartsAsynchronousWrites(call.number) && result >= 0) asynchronous_writes_ = true;
  if (MayChangeMap(call.number)) ReloadMap();
  pager_.Resync();
}

// The process runs another image now: nothing of the view holds any more.
void Engine::FinishExec(const SystemCall& call) {
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/true, &after)) return;
  const uint64_t sequence = log_.NextSequence();
  Transition(after, Discontinuity{.kind = DiscontinuityKind::kExec, .sequence = sequence});
  program_ = ExecutablePath(tracee_->pid());
  log_.Event({.kind = EventKind::kExec,
              .sequence = sequence,
              .count = cpu_->count(),
              .number = call.number,
              .arguments = std::vector<uint64_t>(call.arguments, call.arguments + 6),
              .text = program_});
  asynchronous_writes_ = false;
  pager_.Reset();
  if (!tracee_->Is64Bit()) {
    LeaveAlone("started a program that is not for x86-64");
    return;
  }
  OpenImage();
  log_.EndSegment(sync_count_, sync_registers_);
  log_.BeginSegment(sync_count_, sync_registers_);
  WriteFullKeyframe();
}

}  // namespace hindsight
