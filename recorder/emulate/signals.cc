// ThreadEngine: signals and job control.

#include <ucontext.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread_engine.h"

namespace hindsight {

// For what takes no time in the process: the others wait meanwhile.
TraceeStop ThreadEngine::ResumeAndWait(ResumeHow how, int signal) {
  return stops_.ResumeAndWait(how, signal, [this] {
    engine_->Tick();
    engine_->TakeExits(thread());
  });
}

void ThreadEngine::OnGroupStop() {
  process_->set_stopped(true);
  stops_.Listen();
  state_ = State::kWaiting;
}

void ThreadEngine::LogSignal(const TraceeStop& stop, const RegisterFile& after) {
  const uint64_t sequence = notes_.Signal(cpu_->count(), stop.signal, stop.siginfo);
  sync_.Transition(after, Discontinuity{.kind = DiscontinuityKind::kSignal,
                                        .sequence = sequence,
                                        .signal = stop.signal,
                                        .siginfo = stop.siginfo});
}

// Lets the kernel build the frame of the signal's handler. If the signal interrupted a system call,
// that is call_.
void ThreadEngine::DeliverSignal(TraceeStop stop) {
  const std::optional<CallInFlight> call = std::exchange(call_, std::nullopt);
  state_ = State::kReady;
  while (true) {
    TraceeStop next = ResumeAndWait(ResumeHow::kStep, stop.signal);
    if (next.kind == TraceeStopKind::kStepped && next.handler_entry) {
      RegisterFile handler;
      if (!tracee_->GetRegisters(/*vectors=*/true, &handler)) return;
      if (call.has_value() && call->interrupted()) LogInterruptedCall(*call, handler);
      LogSignal(stop, handler);
      tracee_->ForgetSignalMask();
      // The frame may have made the stack grow.
      if (pager_.space().Find(handler.gpr[kRsp]) == nullptr) {
        engine_->session().Keep(process_->image().ReloadMap(tracee_.get(), &log_, cpu_->count()));
        pager_.SetSpace(process_->image().space());
      }
      if (call.has_value()) {
        engine_->session().progress().AfterCall(thread(), call->number(), call->arguments(), -EINTR,
                                                memory_.Reader());
        SyscallOutputs outputs = OutputsOfCall(*call, -EINTR);
        memory_.NoteCall(*call, outputs);
        memory_.Resync(std::move(outputs));
      }
      memory_.Resync(memory_.OutputsOfFrame(handler));
      return;
    }
    LogSignal(stop, cpu_->registers());
    switch (next.kind) {
      case TraceeStopKind::kExited:
        OnExit(next.wait_status);
        return;
      case TraceeStopKind::kGroupStop:
        OnGroupStop();
        return;
      case TraceeStopKind::kSignal:
        // There was no room for the frame: the kernel sends SIGSEGV instead.
        stop = std::move(next);
        break;
      default:
        // Not delivered after all, and the instruction done.
        FinishStep(Instruction{}, /*reload_map=*/false);
        return;
    }
  }
}

// What the interrupted call returned, to a program whose handler the kernel has just entered: it
// stands in the frame. A call that will be made again leaves no trace: it is as if the signal had
// come before it.
void ThreadEngine::LogInterruptedCall(const CallInFlight& call, const RegisterFile& handler) {
  ucontext_t context;
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<uint8_t*>(&context.uc_mcontext), sizeof(context.uc_mcontext));
  const uint64_t address = handler.gpr[kRdx] + offsetof(ucontext_t, uc_mcontext);
  if (!tracee_->memory().Read(address, bytes)) return;
  RegisterFile after = cpu_->registers();
  const greg_t* saved = context.uc_mcontext.gregs;
  if (static_cast<uint64_t>(saved[REG_RIP]) == after.rip) return;
  after.rip = saved[REG_RIP];
  after.gpr[kRax] = saved[REG_RAX];
  after.gpr[kRcx] = saved[REG_RCX];
  after.gpr[kR11] = saved[REG_R11];
  const uint64_t sequence = LogCall(call, after);
  sync_.Transition(after, SideEffect{.kind = SideEffectKind::kSyscall, .sequence = sequence});
}

}  // namespace hindsight
