// ThreadEngine: signals and job control.

#include <cerrno>
#include <utility>

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/emulate/trap_flag.h"

namespace hindsight {

// For what takes no time in the process: the other threads wait for it.
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

// A group stop is complete, and the parent notified, only when all threads have stopped: also those
// that stand between two instructions. Requires: kReady.
void ThreadEngine::JoinGroupStop() {
  CommitToProcess();
  if (std::optional<TraceeStop> stop = tracee_->StopAnew()) {
    StepNatively(cpu_->next().value_or(Instruction{}), /*reload_map=*/false, std::move(stop));
  } else {
    process_->set_stopped(false);  // it has been continued
    after_call_ = true;
  }
}

// The thread has been woken because the process was continued. Another thread may have stopped it
// again since then, before this stop was looked at: then that stop is what comes first.
bool ThreadEngine::IsStoppedAgain() {
  std::optional<TraceeStop> stop;
  if (process_->stopped()) stop = tracee_->StopAnew();
  if (!stop.has_value()) {
    process_->set_stopped(false);
    return false;
  }
  OnStop(*std::move(stop));
  return true;
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
      // Ours, by which the instruction was stepped that has faulted.
      ClearTrapFlagAt(FlagsOfFrame(handler), tracee_.get());
      if (call.has_value() && call->interrupted()) {
        transitions_.InterruptedCall(*call, handler, memory_.Reader());
      }
      transitions_.Signal(stop, handler);
      tracee_->signals().Forget();
      // The frame may have made the stack grow.
      if (pager_.space().Find(handler.gpr[kRsp]) == nullptr) ReloadMap();
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
    transitions_.Signal(stop);
    switch (next.kind) {
      case TraceeStopKind::kExited:
        OnExit(next.wait_status);
        return;
      case TraceeStopKind::kGroupStop:
        OnGroupStop();
        return;
      case TraceeStopKind::kContinued:
        return;  // the process was stopped and continued first, and the signal is pending again
      case TraceeStopKind::kSignal:
        // There was no room for the frame: the kernel sends SIGSEGV instead.
        stop = std::move(next);
        break;
      default:
        // The signal was not delivered, and the instruction was executed.
        FinishStep(Instruction{}, /*reload_map=*/false);
        return;
    }
  }
}

}  // namespace hindsight
