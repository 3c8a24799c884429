// System calls that have to do with signals.

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/signal_frame.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

// Orders come as this one (orders.h).
constexpr uint64_t kOrders = Bit(SIGILL);
// What rt_sigaction keeps of a signal's flags, since Linux 5.11: so a program can tell which ones
// the kernel knows.
constexpr uint64_t kKnownFlags = SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK |
                                 SA_RESTART | SA_NODEFER | SA_RESETHAND |
                                 0x800 /* SA_EXPOSE_TAGBITS */ | 0x04000000 /* SA_RESTORER */;

void DropHeld(Thread* thread, uint64_t signals) {
  __atomic_fetch_and(&thread->held, ~signals, __ATOMIC_RELAXED);
}

int64_t SetAction(Thread* thread, const GuestCall& call) {
  const auto signal = static_cast<int>(call.argument(0));
  const uint64_t wanted = call.argument(1), old = call.argument(2);
  if (call.argument(3) != kMaskBytes || signal < 1 || signal > kSignalCount) return -EINVAL;
  if (wanted != 0 && (signal == SIGKILL || signal == SIGSTOP)) return -EINVAL;
  SignalAction action;
  if (wanted != 0 && !CopyGuest(&action, PointerTo<void>(wanted), sizeof(action))) return -EFAULT;
  const SignalAction before = thread->actions->of[signal];
  if (wanted != 0) {
    action.mask &= ~kUnblockable;
    action.flags &= kKnownFlags;
    if (IsIgnored(action)) DropHeld(thread, Bit(signal));
    thread->actions->of[signal] = action;
    InstallAction(signal, action);
  }
  if (old != 0 && !CopyGuest(PointerTo<void>(old), &before, sizeof(before))) return -EFAULT;
  return 0;
}

int64_t SetMask(Thread* thread, const GuestCall& call) {
  const uint64_t wanted = call.argument(1), old = call.argument(2);
  if (call.argument(3) != kMaskBytes) return -EINVAL;
  const uint64_t before = thread->signal_mask;
  uint64_t mask = before;
  if (wanted != 0) {
    uint64_t set;
    if (!CopyGuest(&set, PointerTo<void>(wanted), sizeof(set))) return -EFAULT;
    switch (static_cast<int>(call.argument(0))) {
      case SIG_BLOCK:
        mask = before | set;
        break;
      case SIG_UNBLOCK:
        mask = before & ~set;
        break;
      case SIG_SETMASK:
        mask = set;
        break;
      default:
        return -EINVAL;
    }
  }
  if (old != 0 && !CopyGuest(PointerTo<void>(old), &before, sizeof(before))) return -EFAULT;
  thread->signal_mask = mask & ~kUnblockable;
  if (wanted != 0) RestoreSignalMask(*thread);
  return 0;
}

int64_t SetSignalStack(Thread* thread, const GuestCall& call) {
  const uint64_t wanted = call.argument(0), old = call.argument(1);
  const bool on = IsOnSignalStack(*thread, thread->registers[kRsp]);
  GuestStack before = thread->signal_stack;
  before.flags = (before.flags & kAutoDisarm) | (before.size == 0 ? SS_DISABLE
                                                 : on             ? SS_ONSTACK
                                                                  : 0);
  if (wanted != 0) {
    GuestStack stack;
    if (!CopyGuest(&stack, PointerTo<void>(wanted), sizeof(stack))) return -EFAULT;
    if (const int64_t error = ChangeSignalStack(thread, stack); error != 0) return error;
  }
  if (old != 0 && !CopyGuest(PointerTo<void>(old), &before, sizeof(before))) return -EFAULT;
  return 0;
}

// The kernel never has those that are orders.
int64_t ShowPending(Thread* thread, const GuestCall& call) {
  if (call.argument(1) > kMaskBytes) return -EINVAL;
  uint64_t pending = 0;
  Call(SYS_rt_sigpending, AddressOf(&pending), kMaskBytes);
  pending |= thread->held;
  return CopyGuest(PointerTo<void>(call.argument(0)), &pending, call.argument(1)) ? 0 : -EFAULT;
}

// True if it waits for one that the kernel never has, and that has come.
bool TakeHeldOrderSignal(Thread* thread, GuestCall* call) {
  uint64_t wanted = 0;
  if ((thread->held & kOrders) == 0 || call->argument(3) != kMaskBytes ||
      !CopyGuest(&wanted, PointerTo<void>(call->argument(0)), sizeof(wanted)) ||
      (wanted & kOrders) == 0) {
    return false;
  }
  const uint64_t info = call->argument(1);
  const bool told =
      info == 0 || CopyGuest(PointerTo<void>(info), thread->held_info[HeldIndex(SIGILL)],
                             sizeof(thread->held_info[0]));
  DropHeld(thread, kOrders);
  call->set_result(told ? SIGILL : -EFAULT);
  return true;
}

// Where a call has the mask that the kernel is to block, or to wait for.
struct MaskPlace {
  int argument;    // -1: it has none
  bool blocks;     // as long as it waits
  bool is_behind;  // the argument points to what points to it
};

MaskPlace PlaceOfMask(const GuestCall& call) {
  switch (call.number()) {
    case SYS_rt_sigtimedwait:
      return {0, false, false};
    case SYS_signalfd:
    case SYS_signalfd4:
      return {1, false, false};
    case SYS_rt_sigsuspend:
      return {0, true, false};
    case SYS_ppoll:
      return {3, true, false};
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      return {4, true, false};
    case SYS_pselect6:
      return {5, true, true};
    default:
      return {-1, false, false};
  }
}

// The call gets a mask without orders in place of its own. Not if that is wrong: the kernel says
// so.
void LetOrdersThrough(Thread* thread, GuestCall* call) {
  const MaskPlace place = PlaceOfMask(*call);
  if (place.argument < 0) return;
  uint64_t* const behind = thread->call_mask_place;
  uint64_t address = call->argument(place.argument);
  if (place.is_behind) {
    if (!CopyGuest(behind, PointerTo<void>(address), sizeof(thread->call_mask_place))) return;
    address = behind[0];
  }
  if (!CopyGuest(&thread->call_mask, PointerTo<void>(address), kMaskBytes)) return;
  if (place.blocks) {
    thread->unblocked = ~thread->call_mask;
    thread->waiting_mask = thread->call_mask;
    thread->waited = 1;
  }
  thread->call_mask &= ~kOrders;
  behind[0] = AddressOf(&thread->call_mask);
  call->set_argument(place.argument, place.is_behind ? AddressOf(behind) : behind[0]);
}

// The kernel takes what kill(2) has sent from a process's first thread only, as if from elsewhere.
// From others it is sent anew: by this process.
void SendToProcess(const Thread& thread, const int32_t* info) {
  const auto process = static_cast<uint64_t>(thread.process_id);
  const auto signal = static_cast<uint64_t>(info[0]);
  if (Call(SYS_rt_sigqueueinfo, process, signal, AddressOf(info)) == -EPERM) {
    Call(SYS_kill, process, signal);
  }
}

}  // namespace

bool Hold(Thread* thread, const int32_t* info) {
  const uint64_t bit = Bit(info[0]);
  const bool blocked = (thread->signal_mask & ~thread->unblocked & bit) != 0;
  const bool waits = (thread->pending & kSignalPending) != 0;
  if ((kFaultSignals & bit) == 0 || (!blocked && !waits)) return false;
  if ((thread->held & bit) == 0) {
    memcpy(thread->held_info[HeldIndex(info[0])], info, sizeof(thread->held_info[0]));
    __atomic_fetch_or(&thread->held, bit, __ATOMIC_RELAXED);
  }
  return true;
}

bool TakeHeld(Thread* thread) {
  if ((thread->held & ~thread->signal_mask) == 0) return thread->pending != 0;
  BlockSignals();
  // What has come before they were blocked goes first.
  if (thread->pending != 0) return true;
  const int signal = __builtin_ctzll(thread->held & ~thread->signal_mask) + 1;
  thread->signal = {};
  memcpy(thread->signal.info, thread->held_info[HeldIndex(signal)], sizeof(thread->signal.info));
  DropHeld(thread, Bit(signal));
  thread->SetPending(kSignalPending);
  return true;
}

uint64_t StatusOfSignal(int signal) {
  constexpr uint64_t kCores = Bit(SIGQUIT) | Bit(SIGILL) | Bit(SIGABRT) | Bit(SIGFPE) |
                              Bit(SIGSEGV) | Bit(SIGBUS) | Bit(SIGSYS) | Bit(SIGTRAP) |
                              Bit(SIGXCPU) | Bit(SIGXFSZ);
  rlimit limit = {};
  Call(SYS_prlimit64, 0, RLIMIT_CORE, 0, AddressOf(&limit));
  const bool core = (kCores & Bit(signal)) != 0 && limit.rlim_cur != 0;
  return static_cast<uint64_t>(signal) | (core ? 0x80 : 0);
}

void SendHeld(const Thread& thread, uint64_t signals) {
  for (; signals != 0; signals &= signals - 1) {
    const int signal = __builtin_ctzll(signals) + 1;
    const int32_t* const info = thread.held_info[HeldIndex(signal)];
    if (info[2] == SI_TKILL) {
      Call(SYS_rt_tgsigqueueinfo, static_cast<uint64_t>(thread.process_id),
           static_cast<uint64_t>(thread.thread_id), static_cast<uint64_t>(signal), AddressOf(info));
    } else {
      SendToProcess(thread, info);
    }
  }
}

void PassOnSignals(Thread* thread) {
  BlockAllSignals();
  SendHeld(*thread, __atomic_exchange_n(&thread->held, 0, __ATOMIC_RELAXED));
  const int32_t* const info = thread->signal.info;
  if ((thread->pending & kSignalPending) != 0 && info[2] != SI_TKILL) SendToProcess(*thread, info);
}

void GiveHeldToKernel(Thread* thread, GuestCall* call) {
  LetOrdersThrough(thread, call);
  const uint64_t sent = thread->held & (~kOrders | thread->unblocked);
  const uint64_t blocked = (kFaultSignals & ~kOrders & thread->signal_mask) | sent;
  if (blocked == 0 || thread->pending != 0) return;
  Call(SYS_rt_sigprocmask, SIG_BLOCK, AddressOf(&blocked), 0, kMaskBytes);
  DropHeld(thread, sent);
  SendHeld(*thread, sent);
}

void TakeHeldBack(Thread* thread, const GuestCall* made) {
  thread->unblocked = 0;
  const bool ended = made != nullptr && made->result() == -EINTR;
  if (!ended || (thread->pending & kSignalPending) == 0) thread->waited = 0;
  if ((thread->signal_mask & kFaultSignals) == 0) return;
  const uint64_t all = kFaultSignals;
  Call(SYS_rt_sigprocmask, SIG_UNBLOCK, AddressOf(&all), 0, kMaskBytes);
}

uint64_t TakeBlocked(Thread* thread) {
  const bool waited = thread->waited != 0;
  thread->waited = 0;
  return waited ? thread->waiting_mask : thread->signal_mask;
}

bool HandleSignalCall(Thread* thread, GuestCall* call) {
  switch (call->number()) {
    case SYS_rt_sigaction:
      call->set_result(SetAction(thread, *call));
      return true;
    case SYS_rt_sigprocmask:
      call->set_result(SetMask(thread, *call));
      return true;
    case SYS_rt_sigpending:
      call->set_result(ShowPending(thread, *call));
      return true;
    case SYS_rt_sigtimedwait:
      return TakeHeldOrderSignal(thread, call);
    case SYS_sigaltstack:
      call->set_result(SetSignalStack(thread, *call));
      return true;
    default:
      return false;
  }
}

bool HandleReturnFromSignal(Thread* thread, const GuestCall& call) {
  if (call.number() != SYS_rt_sigreturn) return false;
  if (!LeaveHandler(thread)) {
    RaiseFault(thread, SIGSEGV);
    return true;
  }
  RecordReturnFromSignal(thread, call);
  ++thread->count;
  RestoreSignalMask(*thread);
  return true;
}

}  // namespace hindsight::agent
