#include "recorder/translate/agent/calls.h"

#include <asm/prctl.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "libhindsight/control.h"
#include "recorder/syscalls/call_order.h"
#include "recorder/syscalls/map_calls.h"
#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/exclusive_memory.h"
#include "recorder/translate/agent/orders.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/signal_frame.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/tasks.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

constexpr uint64_t kSyscallBytes = 2;

GuestCall CallOf(const Thread& thread) {
  const uint64_t* r = thread.registers;
  return {{r[kRax], r[kRdi], r[kRsi], r[kRdx], thread.block->guest_r10, r[kR8], r[kR9]}};
}

constexpr uint64_t kShadowStackEnable = 0x5001;  // ARCH_SHSTK_ENABLE, in headers of Linux 6.6

// GS is ours: the guest has one in name only.
bool HandleArchPrctl(Thread* thread, GuestCall* call) {
  HsThreadBlock* block = thread->block;
  const uint64_t value = call->argument(1);
  switch (call->argument(0)) {
    case ARCH_SET_GS:
      block->gs_base = value;
      call->set_result(0);
      return true;
    case ARCH_GET_GS:
      call->set_result(CopyGuest(PointerTo<void>(value), &block->gs_base, 8) ? 0 : -EFAULT);
      return true;
    case ARCH_SET_FS:
      call->set_result(Call(SYS_arch_prctl, ARCH_SET_FS, value));
      if (call->result() == 0) block->fs_base = value;
      return true;
    case kShadowStackEnable:
      // Translated code calls and returns as it likes; as on processors that have no such stack.
      call->set_result(-EOPNOTSUPP);
      return true;
    default:
      return false;
  }
}

// The agent reads the counter all the same.
bool HandleTimeStampControl(Thread* thread, GuestCall* call) {
  const uint64_t value = call->argument(1);
  if (call->argument(0) == PR_SET_TSC) {
    const bool known = value == PR_TSC_ENABLE || value == PR_TSC_SIGSEGV;
    if (known) thread->no_time_stamps = value == PR_TSC_SIGSEGV ? 1 : 0;
    call->set_result(known ? 0 : -EINVAL);
    return true;
  }
  if (call->argument(0) != PR_GET_TSC) return false;
  const int32_t mode = thread->no_time_stamps != 0 ? PR_TSC_SIGSEGV : PR_TSC_ENABLE;
  call->set_result(CopyGuest(PointerTo<void>(value), &mode, sizeof(mode)) ? 0 : -EFAULT);
  return true;
}

// close_range over a descriptor of the agent's.
bool CloseRangeAroundOwn(GuestCall* call) {
  constexpr uint64_t kOnlyOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  const auto first = static_cast<uint32_t>(call->argument(0));
  const auto last = static_cast<uint32_t>(call->argument(1));
  const int64_t own = OwnFile();
  if (own <= 0 || own < first || own > last || (call->argument(2) & kOnlyOnExec) != 0) return false;
  int64_t result = 0;
  if (own > first) {
    result = Call(SYS_close_range, first, static_cast<uint64_t>(own - 1), call->argument(2));
  }
  if (result == 0 && own < last) {
    result = Call(SYS_close_range, static_cast<uint64_t>(own + 1), last, call->argument(2));
  }
  call->set_result(result);
  return true;
}

// Descriptors of the agent's are none of the program's.
bool HandleFileCall(GuestCall* call) {
  const auto is_own = [call](int i) {
    return static_cast<int32_t>(call->argument(i)) == OwnFile() && OwnFile() > 0;
  };
  switch (call->number()) {
    case SYS_close:
      if (!is_own(0)) return false;
      call->set_result(-EBADF);
      return true;
    case SYS_dup2:
    case SYS_dup3:
      if (!is_own(1)) return false;
      call->set_result(-EBUSY);
      return true;
    case SYS_close_range:
      return CloseRangeAroundOwn(call);
    default:
      return false;
  }
}

// Two flags are the agent's: what is executed must have them. The program has its own ones in bits
// that the kernel does not use, so that they are inherited.
constexpr uint32_t kAskPersonality = 0xffffffff;
constexpr uint32_t kOursInPersonality = ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT;
constexpr uint32_t kNoRandomize = 1 << 28, kCompatLayout = 1 << 29;

uint32_t OwnPersonality(uint32_t kernels) {
  uint32_t own = kernels & ~(kOursInPersonality | kNoRandomize | kCompatLayout);
  if ((kernels & kNoRandomize) != 0) own |= ADDR_NO_RANDOMIZE;
  if ((kernels & kCompatLayout) != 0) own |= ADDR_COMPAT_LAYOUT;
  return own;
}

int64_t SetPersonality(uint32_t wanted) {
  uint32_t set = kAskPersonality;
  if (wanted != kAskPersonality) {
    set = wanted | kOursInPersonality;
    if ((wanted & ADDR_NO_RANDOMIZE) != 0) set |= kNoRandomize;
    if ((wanted & ADDR_COMPAT_LAYOUT) != 0) set |= kCompatLayout;
  }
  return OwnPersonality(static_cast<uint32_t>(Call(SYS_personality, set)));
}

// Calls that would confine the agent as well, or reach what is not the program's. True if answered.
bool HandleProcessCall(Thread* thread, GuestCall* call) {
  switch (call->number()) {
    case SYS_arch_prctl:
      return HandleArchPrctl(thread, call);
    case SYS_rseq:
      call->set_result(-ENOSYS);
      return true;
    case SYS_pkey_alloc:  // cpuid says that there are none
      call->set_result(-ENOSPC);
      return true;
    case SYS_seccomp:
      return HandleFilterCall(thread, call);
    case SYS_setrlimit:
    case SYS_getrlimit:
    case SYS_prlimit64:
      return HandleLimitCall(*thread, call);
    case SYS_prctl:
      return HandleFilterCall(thread, call) || HandleTimeStampControl(thread, call);
    case SYS_personality:
      call->set_result(SetPersonality(static_cast<uint32_t>(call->argument(0))));
      return true;
    default:
      return false;
  }
}

// False: not made, because something is pending.
bool MakeCall(Thread* thread, GuestCall* call) {
  GiveHeldToKernel(thread, call);
  __atomic_store_n(&thread->in_call, 1, __ATOMIC_SEQ_CST);
  const bool made = AgentSystemCall(call->words);
  __atomic_store_n(&thread->in_call, 0, __ATOMIC_SEQ_CST);
  TakeHeldBack(thread, made ? call : nullptr);
  if (IsRecorded(*thread)) LookForOrder(thread);
  return made;
}

// What would be executed differently if it were recorded, ends the recording before it is done.
void LeaveIfNotRecordable(Thread* thread, const GuestCall& call) {
  if (!IsRecorded(*thread)) return;
  if (MakesOddTask(call)) LeaveAll(thread, HS_END_TASK);
  if (MakesFilterListener(call)) LeaveAll(thread, HS_END_CALL);
  if (MapsOutOfReach(call)) LeaveAll(thread, HS_END_ADDRESS);
  // Its tracer is to see the program, not the agent; and one that waits for the end of a vfork does
  // not answer when the agent's signals stop the child.
  if (call.number() == SYS_ptrace && call.argument(0) == PTRACE_TRACEME) {
    LeaveAll(thread, HS_END_TRACED);
  }
  if (call.number() == SYS_rt_sigreturn && LeavesToTrapFlag(*thread)) {
    LeaveAll(thread, HS_END_TRAP_FLAG);
  }
}

// Whom it is going to trace may be recorded.
void AnnounceTracing(Thread* thread, const GuestCall& call) {
  if (call.number() != SYS_ptrace || !IsRecorded(*thread) || thread->in_namespace != 0) return;
  if (call.argument(0) != PTRACE_ATTACH && call.argument(0) != PTRACE_SEIZE) return;
  Ask(thread, RequestKind::kTraces, call.argument(1));
}

// Whether libhindsight tells by it that a point has been reached.
bool TellsPoint(const GuestCall& call) {
  return call.number() == SYS_getpid && call.argument(0) == HS_RECORDED_POINT &&
         call.argument(2) == sizeof(hs_slot) && Boot().snapshot_points != 0;
}

// Of a call's arguments in memory: 0 if they are not there.
uint64_t PeekGuest(uint64_t address, uint64_t bytes) {
  uint64_t word = 0;
  return CopyGuest(&word, PointerTo<const void>(address), bytes) ? word : 0;
}

// What `call`, which has returned `result`, may have changed is read. Who waited for the recorder
// to come to the call would wait long: it is behind by all that threads have told. Then RecordCall
// must follow. Nothing if the recorder has to come to it anyway, or to read all of the map.
ChangedMap ReadChangedMap(Thread* thread, const GuestCall& call, int64_t result) {
  if (!MayChangeMap(call.number()) || !IsRecorded(*thread)) return {};
  const bool maps = call.number() == SYS_mmap || call.number() == SYS_mprotect;
  if ((maps && (call.argument(2) & PROT_EXEC) != 0) || thread->code_changed != 0) return {};
  const MapRange range = ShownAfterCall(call.number(), call.words + 1, result);
  if (range.end == 0) return {};
  const uint64_t time = WriterOf(*thread).TakeTime();
  const Answer read = Ask(thread, RequestKind::kReadMap, range.start, range.end);
  return {read.results[0], time, read.results[1] != 0};
}

}  // namespace

bool CopyGuest(void* to, const void* from, uint64_t bytes) {
  return AgentCopy(to, from, bytes) == 0;
}

void InstallPersonality() {
  const auto kernels = static_cast<uint32_t>(Call(SYS_personality, kAskPersonality));
  Call(SYS_personality, OwnPersonality(kernels));
}

void FinishCall(Thread* thread, int64_t result) {
  thread->registers[kRax] = static_cast<uint64_t>(result);
  thread->pc += kSyscallBytes;
  ++thread->count;
  thread->registers[kRcx] = thread->pc;
  thread->block->guest_r11 = thread->flags;
}

void HandleCall(Thread* thread) {
  const GuestCall made = CallOf(*thread);
  GuestCall call = made;
  if (thread->pending != 0) return;  // first
  thread->code_changed = 0;
  LeaveIfNotRecordable(thread, made);
  AnnounceTracing(thread, made);
  ShareMemoryBefore(thread, made);
  TellUsedBefore(thread, made);
  const bool acts = StandsWhereItBegan(made.number(), made.words + 1, &PeekGuest);
  RecordReached(thread, acts);
  RecordSent(thread, made);
  if (HandleFilteredCall(thread, made)) return;
  if (HandleReturnFromSignal(thread, call) || HandleTaskCall(thread, call)) return;
  if (!HandleMemoryCall(thread, &call) && !HandleSignalCall(thread, &call) &&
      !HandleProcessCall(thread, &call) && !HandleFileCall(&call) && !MakeCall(thread, &call)) {
    return;
  }
  ShowOwnMap(thread, made, &call);
  NoteMemoryWritten(thread, made, call.result());
  const ChangedMap changed_map = ReadChangedMap(thread, made, call.result());
  HoldBackEntries(*thread);  // never a call without what it has stored
  RecordCall(thread, made, call.result(),
             {.code_changed = thread->code_changed != 0, .changed_map = changed_map});
  FinishCall(thread, call.result());
  NoteSharedMap(made, call.result());
  TakeOutputs(thread, made, call.result());
  TakeOtherOutputs(thread, made, call.result());
  if (!acts && HasSharedMaps()) TakeShared(thread);
  PublishEntries(*thread);
  if (TellsPoint(made)) TakeSnapshot(thread, {HS_STAND_POINT, made.argument(1)});
}

}  // namespace hindsight::agent
