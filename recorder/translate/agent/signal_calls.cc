// System calls that have to do with signals.

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/signal_frame.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/system.h"

namespace hindsight::agent {
namespace {

constexpr uint64_t kMaskBytes = 8;
constexpr uint32_t kAutoDisarm = 1u << 31;
constexpr uint64_t kSmallestStack = 2048;  // MINSIGSTKSZ

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }
constexpr uint64_t kUnblockable = Bit(SIGKILL) | Bit(SIGSTOP);

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
  before.flags |= before.size == 0 ? SS_DISABLE : on ? SS_ONSTACK : 0;
  if (wanted != 0) {
    GuestStack stack;
    if (!CopyGuest(&stack, PointerTo<void>(wanted), sizeof(stack))) return -EFAULT;
    if (on) return -EPERM;
    const uint32_t mode = stack.flags & ~kAutoDisarm;
    if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE) return -EINVAL;
    if (mode == SS_DISABLE) {
      thread->signal_stack = {};
    } else {
      if (stack.size < kSmallestStack) return -ENOMEM;
      thread->signal_stack = {stack.address, stack.flags & kAutoDisarm, 0, stack.size};
    }
  }
  if (old != 0 && !CopyGuest(PointerTo<void>(old), &before, sizeof(before))) return -EFAULT;
  return 0;
}

}  // namespace

bool HandleSignalCall(Thread* thread, GuestCall* call) {
  switch (call->number()) {
    case SYS_rt_sigaction:
      call->set_result(SetAction(thread, *call));
      return true;
    case SYS_rt_sigprocmask:
      call->set_result(SetMask(thread, *call));
      return true;
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
