#include "recorder/translate/agent/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/operations.h"
#include "recorder/translate/agent/orders.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/signal_frame.h"
#include "recorder/translate/agent/stepping.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

SignalActions process_actions;

constexpr uint64_t kRestorerFlag = 0x04000000;  // SA_RESTORER
constexpr uint64_t kStop = uint64_t{1} << 63;   // makes a counter negative

void SetKernelAction(int signal, const SignalAction& action) {
  Call(SYS_rt_sigaction, static_cast<uint64_t>(signal), AddressOf(&action), 0, kMaskBytes);
}

void SetKernelMask(uint64_t mask) {
  Call(SYS_rt_sigprocmask, SIG_SETMASK, AddressOf(&mask), 0, kMaskBytes);
}

// Whether the kernel is to call the agent for a signal that has this action. What would end a
// recorded process comes to the agent first.
bool NeedsAgent(int signal, const SignalAction& action) {
  const bool fatal = Boot().record != 0 && action.handler == 0 && IsFatal(signal);
  return HasHandler(action) || IsFaultSignal(signal) || fatal;
}

uint64_t KernelMask(const Thread& thread) { return thread.signal_mask & ~kFaultSignals; }

Thread* CurrentThread() {
  Thread* thread;
  asm volatile("movq %%gs:%c1, %0" : "=r"(thread) : "i"(HS_SELF + HS_GS_SHIFT));
  return thread;
}

void TakeInfo(const int32_t* info, const FrameContext& context, PendingSignal* to) {
  memcpy(to->info, info, sizeof(to->info));
  to->error = context.registers.error;
  to->trap = context.registers.trap;
  to->fault_address = context.registers.fault_address;
}

bool IsBetween(uint64_t address, const void* first, const void* last) {
  return address >= AddressOf(first) && address <= AddressOf(last);
}

// Makes a counter negative, unless it is: translated code is left at the end of its block.
void LeaveSoon(uint64_t* counter, HsThreadBlock* block) {
  if ((*counter & kStop) != 0) return;
  *counter ^= kStop;
  block->count_end ^= kStop;
}

// Whether translated code is before the one instruction that has been begun. What is pending is
// seen when it has been left the next time.
bool MustNotLeaveYet(const Thread& thread, uint64_t host_pc) {
  constexpr uint64_t kBeforeInstruction = 64;  // bytes, at most: the counter is looked at there
  return thread.midway == kOneInstruction && host_pc - thread.resume < kBeforeInstruction;
}

// Whether it would end the first process of a PID namespace, which only faults do.
bool IsLostOnFirst(const Thread& thread, int signal) {
  return thread.process_id == 1 && thread.actions->of[signal].handler == 0 && IsFatal(signal);
}

// A signal that is not the present instruction's doing.
void OnOtherSignal(Thread* thread, const int32_t* info, FrameContext* context) {
  const bool order = IsOrder(info), lost = !order && IsLostOnFirst(*thread, info[0]);
  const bool held = !order && !lost && Hold(thread, info);
  FrameRegisters& registers = context->registers;
  if (order) {
    thread->SetPending(kOrderPending);
  } else if (!held && !lost) {
    TakeInfo(info, *context, &thread->signal);
    thread->SetPending(kSignalPending);
    context->mask = ~kFaultSignals;
  }
  if (InArenas(registers.rip)) {
    if (!held && !MustNotLeaveYet(*thread, registers.rip)) {
      LeaveSoon(&registers.r10, thread->block);
    }
  } else if ((thread->pending & kSignalPending) == 0 && registers.rip == AddressOf(AgentCallDone) &&
             static_cast<int64_t>(registers.rax) == -EINTR) {
    // What has interrupted it is not the program's business.
    registers.rip = AddressOf(AgentCallNotMade);
  } else if (IsBetween(registers.rip, reinterpret_cast<const void*>(&AgentLeave), AgentLeaveEnd)) {
    registers.rip = AddressOf(&AgentLeave);
  } else if (IsBetween(registers.rip, AgentCallCheck, AgentCallInstruction)) {
    registers.rip = AddressOf(AgentCallNotMade);
  }
}

void GoToFault(FrameContext* context) {
  constexpr uint64_t kPlainFlags = 0x202;
  context->registers.flags = kPlainFlags;
  context->registers.rip = AddressOf(&AgentFault);
}

// A fault of the guest's: the agent looks at it once the handler has returned.
void OnFault(Thread* thread, int signal, const int32_t* info, FrameContext* context) {
  FrameRegisters& registers = context->registers;
  TakeInfo(info, *context, &thread->fault);
  TakeRegisters(registers, thread);
  thread->fault_signal = static_cast<uint32_t>(signal);
  thread->fault_host_pc = 0;
  if (thread->stepping == 0) {
    thread->fault_host_pc = registers.rip;
  } else {
    constexpr uint64_t kTrapFlag = 0x100;
    thread->flags &= ~kTrapFlag;
    thread->block->guest_r10 = registers.r10;
    thread->block->guest_r11 = registers.r11;
    if (signal == SIGTRAP && info[2] == TRAP_TRACE) thread->fault_signal = 0;
  }
  GoToFault(context);
}

// Whether it was the first use of a page of the view, which is there now. If there is no such
// memory, the fault is the guest's, at its own address, and what reading memory there has raised:
// SIGBUS past the end of a file.
bool IsViewFault(Thread* thread, int* signal, int32_t* info, FrameContext* context) {
  constexpr uint64_t kPageFault = 14;
  FrameRegisters& registers = context->registers;
  if (registers.trap != kPageFault) return false;
  const uint64_t address = GuestAddress(*thread, registers.fault_address);
  const bool operating = thread->operating != 0;
  if (!operating && !InArenas(registers.rip)) return false;
  if (address == registers.fault_address) {
    // Beyond the view, but as far from the guest's address, perhaps of the kernel's half, as it is.
    if (!operating && HasGsPrefix(registers.rip)) {
      registers.fault_address -= DistanceOf(thread->number);
      memcpy(&info[4], &registers.fault_address, sizeof(registers.fault_address));
    }
    return false;
  }
  ThreadView::StateAt at = {thread->count};
  if (!operating) at = {thread->block->count_end - registers.r10, registers.rip};
  thread->copy_fault_signal = 0;
  if (TakeViewFault(thread, registers.fault_address, at)) return true;
  registers.fault_address = address;
  memcpy(&info[4], &address, sizeof(address));
  const bool met = thread->copy_fault_signal != 0;
  *signal = info[0] = met ? thread->copy_fault_signal : SIGSEGV;
  info[2] = met ? thread->copy_fault_code : SEGV_MAPERR;
  if (*signal == SIGBUS && IsForbiddenStore(registers, address)) {
    *signal = info[0] = SIGSEGV;
    info[2] = SEGV_ACCERR;
  }
  return false;
}

bool IsComparing(uint64_t rip) {
  return rip >= AddressOf(&AgentIsSame) && rip < AddressOf(AgentIsSameEnd);
}

// The kernel's handler for all signals.
void OnSignal(int signal, int32_t* info, FrameContext* context) {
  AllowMisaligned();
  Thread* thread = CurrentThread();
  if (context->registers.vectors != 0) {
    thread->software = *PointerTo<SoftwareBytes>(context->registers.vectors + kSoftwareBytesOffset);
  }
  const bool by_instruction = IsFaultSignal(signal) && info[2] > 0;
  if (!by_instruction) {
    OnOtherSignal(thread, info, context);
  } else if (context->registers.rip == AddressOf(AgentCopyInstruction)) {
    // Past the rep movsb, of two bytes, whatever is left to copy.
    thread->copy_fault_signal = signal;
    thread->copy_fault_code = info[2];
    context->registers.rip += 2;
  } else if (IsComparing(context->registers.rip)) {
    context->registers.rip = AddressOf(AgentIsNotSame);
  } else if (IsViewFault(thread, &signal, info, context)) {
    // The access is tried again. What has come meanwhile did not find translated code.
    FrameRegisters& registers = context->registers;
    const bool leaves = thread->pending != 0 || IsSegmentLarge(*thread);
    if (leaves && InArenas(registers.rip)) LeaveSoon(&registers.r10, thread->block);
  } else if (thread->operating != 0) {
    TakeInfo(info, *context, &thread->fault);
    thread->fault_signal = static_cast<uint32_t>(signal);
    GoToFault(context);
  } else if (thread->stepping != 0 || InArenas(context->registers.rip)) {
    OnFault(thread, signal, info, context);
  } else {
    // The agent's own fault. Once more, and it is the end.
    SetKernelAction(signal, {});
  }
}

// The recordings of all threads end: the process dies of `signal`.
void EndAll(Thread* thread, int signal) {
  if (!IsRecorded(*thread)) return;
  EndOthers(thread);
  RecordStatus(thread, StatusOfSignal(signal));
  EndRecording(thread, HS_END_EXIT);
}

[[noreturn]] void DieOfOwnFault() {
  SetKernelAction(SIGSEGV, {});
  while (true) asm volatile("hlt");
}

// The process ends, or whatever else the kernel does with a signal that has no handler.
void LetKernelAct(Thread* thread, int signal) {
  const bool fatal = IsFatal(signal), first = thread->process_id == 1;
  if (fatal) EndAll(thread, first ? SIGSEGV : signal);
  BlockSignals();
  SetKernelAction(signal, {});
  Call(SYS_tgkill, static_cast<uint64_t>(thread->process_id),
       static_cast<uint64_t>(thread->thread_id), static_cast<uint64_t>(signal));
  SetKernelMask(~Bit(signal));
  if (fatal && first) DieOfOwnFault();
  InstallAction(signal, thread->actions->of[signal]);
}

// The guest's instruction faults once more, natively and for good: with the status, and the core,
// that it has natively.
[[noreturn]] void DieOfFault(Thread* thread, int signal) {
  RecordSignal(thread, thread->fault);
  EndAll(thread, signal);
  SetKernelAction(signal, {});
  SetKernelMask(KernelMask(*thread));
  // The thread is past an int3.
  if (signal == SIGTRAP) thread->pc = thread->step_pc;
  LeaveNatively(thread, /*step=*/false);
}

// Whoever looks at the handler's callers reads it before the program does.
void TakeFrame(Thread* thread) {
  const uint64_t start = thread->registers[kRsp];
  SignalFrame frame;
  if (!IsRecorded(*thread) || !CopyGuest(&frame, PointerTo<void>(start), sizeof(frame))) return;
  const uint64_t vectors = frame.context.registers.vectors;
  TakeRead(thread, start, sizeof(frame));
  TakeRead(thread, vectors, thread->software.extended_bytes);
}

// Makes the handler's frame; what is blocked in the handler.
bool Deliver(Thread* thread, const PendingSignal& signal) {
  const int number = signal.info[0];
  SignalAction& action = thread->actions->of[number];
  const SignalAction used = action;
  if (!EnterHandler(thread, signal, used)) return false;
  RecordSignal(thread, signal);
  TakeFrame(thread);
  if ((used.flags & SA_RESETHAND) != 0) {
    action.handler = 0;
    InstallAction(number, action);
  }
  const uint64_t added = used.mask | ((used.flags & SA_NODEFER) == 0 ? Bit(number) : 0);
  thread->signal_mask = (TakeBlocked(thread) | added) & ~kUnblockable;
  return true;
}

// As the kernel does where the frame of `failed` does not fit its stack: by SIGSEGV, whose handler
// may have another stack. Otherwise that ends the process.
void DeliverFailure(Thread* thread, const PendingSignal& failed) {
  PendingSignal fault = failed;
  memset(fault.info, 0, sizeof(fault.info));
  fault.info[0] = SIGSEGV;
  fault.info[2] = SI_KERNEL;
  const bool handled = failed.info[0] != SIGSEGV && HasHandler(thread->actions->of[SIGSEGV]) &&
                       (thread->signal_mask & Bit(SIGSEGV)) == 0;
  if (handled && Deliver(thread, fault)) return;
  EndBySignal(thread, fault);
}

void DeliverFault(Thread* thread) {
  const int signal = static_cast<int>(thread->fault_signal);
  TakeSnapshotBefore(thread, signal);
  const bool handled =
      HasHandler(thread->actions->of[signal]) && (thread->signal_mask & Bit(signal)) == 0;
  if (!handled) DieOfFault(thread, signal);
  if (!Deliver(thread, thread->fault)) {
    if (signal == SIGSEGV) DieOfFault(thread, signal);
    DeliverFailure(thread, thread->fault);
  }
  RestoreSignalMask(*thread);
}

// From translated code's registers to the guest's. False if the recorder does not know the place.
bool Recover(Thread* thread) {
  const Answer answer = Ask(thread, RequestKind::kRecover, thread->fault_host_pc);
  if (answer.results[0] == 0) return false;
  HsThreadBlock* block = thread->block;
  thread->count = block->count_end - thread->registers[kR10] + answer.results[2];
  thread->pc = answer.results[1];
  for (int i = 0; i < 4; ++i) {
    const auto saved = static_cast<uint8_t>(answer.results[3] >> (8 * i));
    constexpr uint64_t kCarryFlag = 1, kStatusFlags = 0x8d5;
    if (saved == HS_CARRY_SAVED) {
      thread->flags = (thread->flags & ~kCarryFlag) | (block->save[i] & kCarryFlag);
    } else if (saved == HS_FLAGS_ASIDE) {
      // As lahf and seto have left them.
      const uint64_t aside = block->flags_aside;
      thread->flags =
          (thread->flags & ~kStatusFlags) | (aside >> 8 & kStatusFlags & 0xff) | (aside & 1) << 11;
    } else if (saved == HS_POPPED) {
      thread->registers[kRsp] -= sizeof(uint64_t);
    } else if (saved != HS_NOT_SAVED) {
      thread->registers[saved] = block->save[i];
    }
  }
  // Not an address of memory but the instruction's own.
  const int signal = static_cast<int>(thread->fault_signal);
  if (signal == SIGFPE || signal == SIGILL || signal == SIGTRAP) {
    memcpy(&thread->fault.info[4], &thread->pc, sizeof(thread->pc));
  }
  return true;
}

// Whether the fault is int3's.
bool IsBreakpoint(const Thread& thread) {
  return thread.fault_signal == SIGTRAP && thread.fault.info[2] == SI_KERNEL;
}

}  // namespace

void InstallAction(int signal, const SignalAction& action) {
  if (!NeedsAgent(signal, action)) {
    SetKernelAction(signal, action);
    return;
  }
  constexpr uint64_t kKept = SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT;
  SetKernelAction(signal, {AddressOf(&OnSignal),
                           SA_SIGINFO | SA_ONSTACK | kRestorerFlag | (action.flags & kKept) |
                               (IsFaultSignal(signal) ? SA_NODEFER : 0),
                           AddressOf(&AgentRestorer), ~kFaultSignals});
}

GuestStack AgentSignalStack(const Thread& thread) {
  return {GapOf(thread.number) + kSignalStackOffset, 0, 0, kSignalStackBytes};
}

void BlockSignals() { SetKernelMask(~kFaultSignals); }

void BlockAllSignals() { SetKernelMask(~uint64_t{0}); }

void RestoreSignalMask(const Thread& thread) {
  // From here on none becomes pending behind our back.
  BlockSignals();
  if (thread.pending == 0) SetKernelMask(KernelMask(thread));
}

void RaiseFault(Thread* thread, int signal) {
  constexpr uint64_t kGeneralProtection = 13;
  thread->fault = {};
  thread->fault.trap = kGeneralProtection;
  thread->fault.info[0] = signal;
  thread->fault.info[2] = SI_KERNEL;
  thread->fault_signal = static_cast<uint32_t>(signal);
  DeliverFault(thread);
}

bool RaiseBySystemCall(Thread* thread, const PendingSignal& signal) {
  const int number = signal.info[0];
  const bool handled =
      HasHandler(thread->actions->of[number]) && (thread->signal_mask & Bit(number)) == 0;
  if (!handled || !Deliver(thread, signal)) return false;
  RestoreSignalMask(*thread);
  return true;
}

void EndBySignal(Thread* thread, const PendingSignal& signal) {
  const int number = signal.info[0];
  RecordSignal(thread, signal);
  thread->actions->of[number] = {};
  LetKernelAct(thread, number);
}

void StopSoon(Thread* thread) { LeaveSoon(&thread->registers[kR10], thread->block); }

void GiveBackSignals(Thread* thread) {
  BlockSignals();
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    const SignalAction& action = thread->actions->of[signal];
    if (NeedsAgent(signal, action)) SetKernelAction(signal, action);
  }
}

void GiveBackThreadSignals(const Thread& thread) {
  const bool none = thread.signal_stack.size == 0;
  const GuestStack stack = none ? GuestStack{0, SS_DISABLE, 0, 0} : thread.signal_stack;
  Call(SYS_sigaltstack, AddressOf(&stack), 0);
  // What has come and was not delivered comes again.
  if ((thread.pending & kSignalPending) != 0) {
    Call(SYS_rt_tgsigqueueinfo, static_cast<uint64_t>(thread.process_id),
         static_cast<uint64_t>(thread.thread_id), static_cast<uint64_t>(thread.signal.info[0]),
         AddressOf(thread.signal.info));
  }
  BlockAllSignals();
  SendHeld(thread, thread.held);
  SetKernelMask(thread.signal_mask);
}

int64_t StartSignals(Thread* thread) {
  thread->actions = &process_actions;
  Call(SYS_rt_sigprocmask, SIG_SETMASK, 0, AddressOf(&thread->signal_mask), kMaskBytes);
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    Call(SYS_rt_sigaction, static_cast<uint64_t>(signal), 0, AddressOf(&process_actions.of[signal]),
         kMaskBytes);
  }
  // What is pending from before the program was executed comes to the agent.
  BlockAllSignals();
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    if (NeedsAgent(signal, process_actions.of[signal])) {
      InstallAction(signal, process_actions.of[signal]);
    }
  }
  StartThreadSignals(thread);
  return 0;
}

void StartThreadSignals(Thread* thread) {
  const GuestStack stack = AgentSignalStack(*thread);
  Call(SYS_sigaltstack, AddressOf(&stack), 0);
  RestoreSignalMask(*thread);
}

SignalActions* CopyActions(const Thread& thread, uint64_t number) {
  auto* actions = PointerTo<SignalActions>(GapOf(number) + kActionsOffset);
  memcpy(actions, thread.actions, sizeof(*actions));
  return actions;
}

void PrepareSignalsForExec(Thread* thread) {
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    // What is ignored remains so; handlers, the agent's as well, are the kernel's business.
    if (IsFaultSignal(signal) && IsIgnored(thread->actions->of[signal])) {
      SetKernelAction(signal, thread->actions->of[signal]);
    }
  }
  BlockAllSignals();
  SendHeld(*thread, __atomic_exchange_n(&thread->held, 0, __ATOMIC_RELAXED));
  SetKernelMask(thread->signal_mask);
}

void UndoPrepareForExec(Thread* thread) {
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    const SignalAction& action = thread->actions->of[signal];
    if (IsFaultSignal(signal) && IsIgnored(action)) InstallAction(signal, action);
  }
  RestoreSignalMask(*thread);
}

void DeliverPending(Thread* thread) {
  const int signal = thread->signal.info[0];
  TakeSnapshotBefore(thread, signal);
  thread->ClearPending(kSignalPending);
  const SignalAction& action = thread->actions->of[signal];
  if (!HasHandler(action)) {
    thread->waited = 0;
    if (action.handler == 0 && !IsLostOnFirst(*thread, signal)) {
      if (IsFatal(signal)) RecordSignal(thread, thread->signal);
      LetKernelAct(thread, signal);
    }
  } else if (!Deliver(thread, thread->signal)) {
    DeliverFailure(thread, thread->signal);
  }
  RestoreSignalMask(*thread);
}

extern "C" [[noreturn]] void AgentHandleFault(Thread* thread) {
  const bool operated = thread->operating != 0;
  if (operated) AbandonOperation(thread);
  const bool alone = thread->stepping != 0;
  const bool stepped = operated || alone;
  thread->stepping = 0;
  if (thread->fault_signal == 0) {
    FinishStep(thread);
  } else if (stepped && IsBreakpoint(*thread)) {
    // It has been executed: the handler's frame shows what follows it.
    FinishStep(thread);
    DeliverFault(thread);
  } else if (stepped || Recover(thread)) {
    if (IsViewFull(*thread)) LeaveAll(thread, HS_END_MEMORY);
    TakeFailedStore(thread, thread->fault.fault_address);
    if (!alone && IsToldByInstruction(*thread)) ExecuteNatively(thread);
    DeliverFault(thread);
  } else {
    LetKernelAct(thread, static_cast<int>(thread->fault_signal));
  }
  Continue(thread);
}

}  // namespace hindsight::agent
