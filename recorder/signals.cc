// Engine: signals and job control.

#include <sys/syscall.h>
#include <ucontext.h>

#include <cstring>
#include <utility>

#include "recorder/engine.h"

namespace hindsight {

// Resumes, and sits out stops by job control.
TraceeStop Engine::ResumeAndWait(ResumeHow how, int signal) {
  const auto on_tick = [this] { KeepHouse(); };
  tracee_->Resume(how, signal);  // fails if the process is gone, which Wait reports
  while (true) {
    TraceeStop stop = tracee_->Wait(on_tick);
    if (stop.kind == TraceeStopKind::kGroupStop) {
      tracee_->Listen();
    } else if (stop.kind == TraceeStopKind::kContinued) {
      tracee_->Resume(how, 0);
    } else {
      return stop;
    }
  }
}

void Engine::NoteSignal(const TraceeStop& stop, const RegisterFile& after) {
  const uint64_t sequence = log_.NextSequence();
  Transition(after, Discontinuity{.kind = DiscontinuityKind::kSignal,
                                  .sequence = sequence,
                                  .signal = stop.signal,
                                  .siginfo = stop.siginfo});
  log_.Event({.kind = EventKind::kSignal,
              .sequence = sequence,
              .count = cpu_->count(),
              .number = stop.signal,
              .text = stop.siginfo});
}

// Lets the kernel build the frame of the signal's handler. If the signal interrupted a system
// call, `interrupted` is that call.
void Engine::DeliverSignal(TraceeStop stop, const SystemCall* interrupted) {
  while (true) {
    TraceeStop next = ResumeAndWait(ResumeHow::kStep, stop.signal);
    if (next.kind == TraceeStopKind::kStepped && next.handler_entry) {
      RegisterFile handler;
      if (!tracee_->GetRegisters(/*vectors=*/true, &handler)) return;
      if (interrupted != nullptr) NoteInterruptedCall(*interrupted, handler);
      NoteSignal(stop, handler);
      tracee_->ForgetSignalMask();
      // The frame may have made the stack grow.
      const MapRegion* stack = pager_.map().Find(handler.gpr[kRsp]);
      if (stack == nullptr) ReloadMap();
      pager_.Resync();
      return;
    }
    NoteSignal(stop, cpu_->registers());
    if (next.kind == TraceeStopKind::kExited) {
      OnExit(next.wait_status);
      return;
    }
    if (next.kind != TraceeStopKind::kSignal) {
      // Not delivered after all, and the instruction done.
      FinishStep(Instruction{});
      return;
    }
    // There was no room for the frame: the kernel sends SIGSEGV instead.
    stop = std::move(next);
  }
}

// What the interrupted call returned, to a program whose handler the kernel has just entered: it
// stands in the frame. A call that will be made again leaves no trace: it is as if the signal had
// come before it.
void Engine::NoteInterruptedCall(const SystemCall& call, const RegisterFile& handler) {
  ucontext_t context;
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<uint8_t*>(&context.uc_mcontext), sizeof(context.uc_mcontext));
  const uint64_t address = handler.gpr[kRdx] + offsetof(ucontext_t, uc_mcontext);
  if (!tracee_->Read(address, bytes)) return;
  RegisterFile after = cpu_->registers();
  const greg_t* saved = context.uc_mcontext.gregs;
  if (static_cast<uint64_t>(saved[REG_RIP]) == after.rip) return;
  after.rip = saved[REG_RIP];
  after.gpr[kRax] = saved[REG_RAX];
  after.gpr[kRcx] = saved[REG_RCX];
  after.gpr[kR11] = saved[REG_R11];
  const uint64_t sequence = log_.NextSequence();
  Transition(after, SideEffect{.kind = SideEffectKind::kSyscall, .sequence = sequence});
  log_.Event({.kind = EventKind::kSyscall,
              .sequence = sequence,
              .count = cpu_->count(),
              .number = call.number,
              .arguments = std::vector<uint64_t>(call.arguments, call.arguments + 6),
              .result = static_cast<int64_t>(after.gpr[kRax])});
}

}  // namespace hindsight
