#include "recorder/emulate/sync/transition_log.h"

#include <ucontext.h>

#include <cstddef>

#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

void TransitionLog::SystemCall(const CallInFlight& call, const RegisterFile& after) {
  const uint64_t sequence = notes_->SystemCall(sync_->count(), call.number(), {call.arguments(), 6},
                                               static_cast<int64_t>(after.gpr[kRax]));
  sync_->Transition(after, SideEffect{.kind = SideEffectKind::kSyscall, .sequence = sequence});
}

void TransitionLog::Forks(const CallInFlight& call) {
  for (const CallInFlight::Fork& fork : call.forks()) {
    notes_->Fork(sync_->count(), call.number(), fork.kind, call.CloneFlags(), fork.process,
                 fork.recorded);
  }
}

void TransitionLog::Exec(const CallInFlight& call, const std::string& program,
                         const RegisterFile& after) {
  const uint64_t sequence =
      notes_->Exec(sync_->count(), call.number(), {call.arguments(), 6}, program);
  sync_->Transition(after, Discontinuity{.kind = DiscontinuityKind::kExec, .sequence = sequence});
}

void TransitionLog::Signal(const TraceeStop& stop, const RegisterFile& handler) {
  const uint64_t sequence = notes_->Signal(sync_->count(), stop.signal, stop.siginfo);
  sync_->Transition(handler, Discontinuity{.kind = DiscontinuityKind::kSignal,
                                           .sequence = sequence,
                                           .signal = stop.signal,
                                           .siginfo = stop.siginfo});
}

// What the call returned is in the frame that the kernel has built for the handler.
void TransitionLog::InterruptedCall(const CallInFlight& call, const RegisterFile& handler,
                                    const ReadMemory& read) {
  ucontext_t context;
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<uint8_t*>(&context.uc_mcontext), sizeof(context.uc_mcontext));
  if (!read(handler.gpr[kRdx] + offsetof(ucontext_t, uc_mcontext), bytes)) return;
  RegisterFile after = sync_->registers();
  const greg_t* saved = context.uc_mcontext.gregs;
  if (static_cast<uint64_t>(saved[REG_RIP]) == after.rip) return;
  after.rip = saved[REG_RIP];
  after.gpr[kRax] = saved[REG_RAX];
  after.gpr[kRcx] = saved[REG_RCX];
  after.gpr[kR11] = saved[REG_R11];
  SystemCall(call, after);
}

}  // namespace hindsight
