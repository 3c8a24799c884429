#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/tasks.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/filter/filter_program.h"

namespace hindsight::agent {

// One that is asked before those that were installed earlier.
struct CallFilter {
  const CallFilter* earlier;
  uint32_t number;      // how many there are with those
  uint32_t path_words;  // instructions of all of them, and 4 for each
  uint32_t size;
  sock_filter program[];
};

namespace {

constexpr uint64_t kArena = kAgentImage + 4 * kMiB, kArenaBytes = 2 * kMiB;
constexpr uint32_t kMostPathWords = 32768, kWordsPerFilter = 4;
constexpr uint64_t kSyscallBytes = 2;

// Of the process, but for the vfork children that have its memory for a while.
struct SharedFilters {
  uint32_t lock;
  uint32_t generation;  // changes when all threads get the same ones
  uint32_t no_new_privileges;
  const CallFilter* filters;
  uint64_t used;  // bytes of the arena; 0: not mapped
};
SharedFilters shared;

class Lock {
 public:
  Lock() {
    while (__atomic_exchange_n(&shared.lock, 1, __ATOMIC_ACQUIRE) != 0) Call(SYS_sched_yield);
  }
  ~Lock() { __atomic_store_n(&shared.lock, 0, __ATOMIC_RELEASE); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

// Null if there is no more room.
CallFilter* Allocate(uint32_t size) {
  const uint64_t bytes = (sizeof(CallFilter) + size * sizeof(sock_filter) + 7) & ~uint64_t{7};
  if (shared.used == 0) {
    const int64_t mapped =
        Call(SYS_mmap, kArena, kArenaBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, ~uint64_t{0});
    if (IsError(mapped)) return nullptr;
  }
  if (shared.used + bytes > kArenaBytes) return nullptr;
  auto* filter = PointerTo<CallFilter>(kArena + shared.used);
  shared.used += bytes;
  return filter;
}

// Another thread may have given this one its filters.
void AdoptShared(Thread* thread) {
  const uint32_t generation = __atomic_load_n(&shared.generation, __ATOMIC_ACQUIRE);
  if (thread->alone != 0 || thread->filter_generation == generation) return;
  const Lock lock;
  thread->filter_generation = shared.generation;
  thread->filters = shared.filters;
  if (shared.no_new_privileges != 0) Call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
}

int32_t ActionOf(uint32_t result) { return static_cast<int32_t>(result & SECCOMP_RET_ACTION_FULL); }

// What the filters say: that of the strictest, of equal ones that of the latest.
uint32_t AskFilters(const Thread& thread, const GuestCall& call) {
  seccomp_data data = {.nr = static_cast<int>(call.number()),
                       .arch = AUDIT_ARCH_X86_64,
                       .instruction_pointer = thread.pc + kSyscallBytes};
  for (int i = 0; i < 6; ++i) data.args[i] = call.argument(i);
  uint32_t strictest = SECCOMP_RET_ALLOW;
  for (const CallFilter* filter = thread.filters; filter != nullptr; filter = filter->earlier) {
    const uint32_t result = RunFilter(filter->program, data);
    if (ActionOf(result) < ActionOf(strictest)) strictest = result;
  }
  return strictest;
}

bool IsAllowedStrictly(const GuestCall& call) {
  return call.number() == SYS_read || call.number() == SYS_write || call.number() == SYS_exit ||
         call.number() == SYS_rt_sigreturn;
}

void Answer(Thread* thread, const GuestCall& call, int64_t result) {
  RecordCall(thread, call, result);
  FinishCall(thread, result);
}

// It has not been made, and has no result: no more than an instruction.
void PassBy(Thread* thread, const GuestCall& call) {
  FinishCall(thread, static_cast<int64_t>(call.words[0]));
  --thread->count;
  RecordStep(thread);
  ++thread->count;
}

// Of a SIGSYS; SYS_SECCOMP and SYS_USER_DISPATCH.
enum class Code : int32_t { kFilter = 1, kDispatch = 2 };

// The thread is past the call, which has not been made.
PendingSignal SignalOf(const Thread& thread, const GuestCall& call, uint32_t result, Code code) {
  PendingSignal signal = {};
  signal.info[0] = SIGSYS;
  signal.info[1] = static_cast<int32_t>(result & SECCOMP_RET_DATA);
  signal.info[2] = static_cast<int32_t>(code);
  memcpy(&signal.info[4], &thread.pc, sizeof(thread.pc));
  signal.info[6] = static_cast<int32_t>(call.number());
  signal.info[7] = static_cast<int32_t>(AUDIT_ARCH_X86_64);
  return signal;
}

// A filter that says `result` of every call.
void InstallAlways(uint32_t result) {
  sock_filter program[] = {BPF_STMT(BPF_RET | BPF_K, result)};
  const sock_fprog whole = {1, program};
  if (Call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, AddressOf(&whole)) == -EACCES) {
    Call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
    Call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, AddressOf(&whole));
  }
}

// The kernel does it, as it would have without the agent.
[[noreturn]] void EndPast(Thread* thread, const GuestCall& call, uint32_t result, int signal,
                          Code code) {
  const bool all = result != SECCOMP_RET_KILL_THREAD || IsLastThread();
  if (all && signal == SIGSYS) RecordSignal(thread, SignalOf(*thread, call, result, code));
  EndTask(thread, all, all ? StatusOfSignal(signal) : 0);
  if (all && signal == SIGKILL) EndAtOnce();
  InstallAlways(all ? SECCOMP_RET_KILL_PROCESS : result);
  while (true) {
    const uint64_t* w = call.words;
    Call(static_cast<long>(w[0]), w[1], w[2], w[3], w[4], w[5], w[6]);
  }
}

[[noreturn]] void EndBy(Thread* thread, const GuestCall& call, uint32_t result, int signal) {
  PassBy(thread, call);
  EndPast(thread, call, result, signal, Code::kFilter);
}

void RaiseSignal(Thread* thread, const GuestCall& call, uint32_t result, Code code) {
  PassBy(thread, call);
  if (!RaiseBySystemCall(thread, SignalOf(*thread, call, result, code))) {
    EndPast(thread, call, SECCOMP_RET_KILL_PROCESS, SIGSYS, code);
  }
}

bool Refuse(Thread* thread, const GuestCall& call, uint32_t result) {
  constexpr uint32_t kMaxError = 4095;
  const uint32_t data = result & SECCOMP_RET_DATA;
  switch (result & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
      return false;
    case SECCOMP_RET_ERRNO:
      Answer(thread, call, -static_cast<int64_t>(data < kMaxError ? data : kMaxError));
      return true;
    case SECCOMP_RET_TRACE:
    case SECCOMP_RET_USER_NOTIF:
      Answer(thread, call, -ENOSYS);  // nobody decides
      return true;
    case SECCOMP_RET_TRAP:
      RaiseSignal(thread, call, result, Code::kFilter);
      return true;
    case SECCOMP_RET_KILL_THREAD:
      EndBy(thread, call, SECCOMP_RET_KILL_THREAD, SIGSYS);
    default:
      EndBy(thread, call, SECCOMP_RET_KILL_PROCESS, SIGSYS);
  }
}

bool MayInstall() {
  if (Call(SYS_prctl, PR_GET_NO_NEW_PRIVS) == 1) return true;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  Call(SYS_capget, AddressOf(&header), AddressOf(data));
  return (data[0].effective >> CAP_SYS_ADMIN & 1) != 0;
}

bool IsAmong(const CallFilter* filter, const CallFilter* of) {
  for (; of != nullptr; of = of->earlier) {
    if (of == filter) return true;
  }
  return filter == nullptr;
}

// A thread that has filters which this one has not; 0: none.
int32_t FindOther(const Thread& thread) {
  for (uint64_t number = kFirstThread; number <= kLastThread; ++number) {
    if (number == thread.number || !IsGapRecorded(number)) continue;
    const Thread& other = *ThreadOf(number);
    if (other.alone != 0 || other.process_id != thread.process_id) continue;
    const bool current = other.filter_generation == shared.generation;
    if (other.strict_calls != 0) return other.thread_id;
    if (!IsAmong(current ? other.filters : shared.filters, thread.filters)) return other.thread_id;
  }
  return 0;
}

// For all threads.
void Share(const Thread& thread) {
  shared.filters = thread.filters;
  shared.no_new_privileges = Call(SYS_prctl, PR_GET_NO_NEW_PRIVS) == 1;
}

// Reads the program that the call names. 0 or an error; *filter is that of the arena.
int64_t ReadFilter(const Thread& thread, uint64_t address, CallFilter** filter) {
  sock_fprog program;
  if (!CopyGuest(&program, PointerTo<void>(address), sizeof(program))) return -EFAULT;
  if (program.len == 0 || program.len > BPF_MAXINSNS) return -EINVAL;
  if (!MayInstall()) return -EACCES;
  const uint64_t used = shared.used;
  CallFilter* made = Allocate(program.len);
  if (made == nullptr) return -ENOMEM;
  made->earlier = thread.filters;
  made->size = program.len;
  made->number = 1 + (thread.filters == nullptr ? 0 : thread.filters->number);
  const uint32_t earlier_words = thread.filters == nullptr ? 0 : thread.filters->path_words;
  made->path_words = earlier_words + program.len + kWordsPerFilter;
  int64_t error = 0;
  if (!CopyGuest(made->program, program.filter, program.len * sizeof(sock_filter))) {
    error = -EFAULT;
  } else if (!IsValidFilter(made->program, made->size)) {
    error = -EINVAL;
  } else if (earlier_words + program.len > kMostPathWords) {
    error = -ENOMEM;
  }
  if (error != 0) shared.used = used != 0 ? used : 8;
  *filter = made;
  return error;
}

bool AreValidFlags(uint64_t flags) {
  constexpr uint64_t kWaitKillable = 1 << 5;  // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
  constexpr uint64_t kKnown = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG |
                              SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_NEW_LISTENER |
                              SECCOMP_FILTER_FLAG_TSYNC_ESRCH | kWaitKillable;
  const bool listens = (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
  const bool all = (flags & SECCOMP_FILTER_FLAG_TSYNC) != 0;
  if ((flags & ~kKnown) != 0 || (!listens && (flags & kWaitKillable) != 0)) return false;
  return !all || !listens || (flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH) != 0;
}

int64_t SetFilter(Thread* thread, uint64_t flags, uint64_t address) {
  if (!AreValidFlags(flags)) return -EINVAL;
  const Lock lock;
  CallFilter* filter = nullptr;
  const int64_t error = ReadFilter(*thread, address, &filter);
  if (error != 0) return error;
  if (thread->strict_calls != 0) return -EINVAL;
  const bool all = (flags & SECCOMP_FILTER_FLAG_TSYNC) != 0 && thread->alone == 0;
  if (all) {
    const int32_t other = FindOther(*thread);
    if (other != 0) return (flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH) != 0 ? -ESRCH : other;
  }
  thread->filters = filter;
  if (!all) return 0;
  Share(*thread);
  thread->filter_generation = __atomic_add_fetch(&shared.generation, 1, __ATOMIC_ACQ_REL);
  return 0;
}

int64_t SetStrict(Thread* thread) {
  if (thread->filters != nullptr) return -EINVAL;
  thread->strict_calls = 1;
  return 0;
}

int64_t HandleSeccomp(Thread* thread, uint64_t operation, uint64_t flags, uint64_t address) {
  if (operation == SECCOMP_SET_MODE_FILTER) return SetFilter(thread, flags, address);
  return flags != 0 || address != 0 ? -EINVAL : SetStrict(thread);
}

// Those installed first come first.
void InstallWithEarlier(const CallFilter* filter) {
  if (filter == nullptr) return;
  InstallWithEarlier(filter->earlier);
  const sock_fprog whole = {static_cast<unsigned short>(filter->size),
                            const_cast<sock_filter*>(filter->program)};
  if (Call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, AddressOf(&whole)) == -EACCES) {
    // It has given up what it needed for that. Its restrictions are more than its privileges.
    Call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
    Call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, AddressOf(&whole));
  }
}

// What Linux 6.17 has besides (PR_SYS_DISPATCH_INCLUSIVE_ON) is refused, as by earlier ones.
int64_t SetDispatch(Thread* thread, const GuestCall& call) {
  constexpr uint64_t kAddressEnd = uint64_t{1} << 47;
  const bool on = call.argument(1) == PR_SYS_DISPATCH_ON;
  const CallDispatch wanted = {on, call.argument(2), call.argument(3), call.argument(4)};
  if (on) {
    if (wanted.start != 0 && wanted.start + wanted.bytes <= wanted.start) return -EINVAL;
    if (wanted.selector >= kAddressEnd) return -EFAULT;
  } else if (call.argument(1) != PR_SYS_DISPATCH_OFF ||
             (wanted.start | wanted.bytes | wanted.selector) != 0) {
    return -EINVAL;
  }
  thread->dispatch = wanted;
  return 0;
}

// True if the call is not to be made: it has raised SIGSYS, or ended the process.
bool Dispatch(Thread* thread, const GuestCall& call) {
  const CallDispatch& dispatch = thread->dispatch;
  if (thread->pc + kSyscallBytes - dispatch.start < dispatch.bytes) return false;
  uint8_t selected = SYSCALL_DISPATCH_FILTER_BLOCK;
  const auto* const selector = PointerTo<void>(dispatch.selector);
  if (dispatch.selector != 0 && !CopyGuest(&selected, selector, sizeof(selected))) {
    PassBy(thread, call);
    EndBySignal(thread, {.info = {SIGSEGV, 0, SI_KERNEL}});
  }
  if (selected == SYSCALL_DISPATCH_FILTER_ALLOW) return false;
  if (selected != SYSCALL_DISPATCH_FILTER_BLOCK) {
    EndBy(thread, call, SECCOMP_RET_KILL_PROCESS, SIGSYS);
  }
  RaiseSignal(thread, call, 0, Code::kDispatch);
  return true;
}

}  // namespace

int FilterMode(const Thread& thread) {
  if (thread.strict_calls != 0) return SECCOMP_MODE_STRICT;
  return thread.filters != nullptr ? SECCOMP_MODE_FILTER : SECCOMP_MODE_DISABLED;
}

uint32_t FilterCount(const Thread& thread) {
  return thread.filters == nullptr ? 0 : thread.filters->number;
}

bool HandleFilteredCall(Thread* thread, const GuestCall& call) {
  AdoptShared(thread);
  if (thread->dispatch.on != 0 && Dispatch(thread, call)) return true;
  if (thread->strict_calls != 0) {
    if (IsAllowedStrictly(call)) return false;
    EndBy(thread, call, SECCOMP_RET_KILL_THREAD, SIGKILL);
  }
  return thread->filters != nullptr && Refuse(thread, call, AskFilters(*thread, call));
}

bool HandleFilterCall(Thread* thread, GuestCall* call) {
  const uint64_t operation = call->argument(call->number() == SYS_prctl ? 1 : 0);
  if (call->number() == SYS_prctl && call->argument(0) == PR_GET_SECCOMP) {
    call->set_result(FilterMode(*thread));
  } else if (call->number() == SYS_prctl && call->argument(0) == PR_SET_SECCOMP) {
    if (operation == SECCOMP_MODE_FILTER) {
      call->set_result(SetFilter(thread, 0, call->argument(2)));
    } else {
      call->set_result(operation == SECCOMP_MODE_STRICT ? SetStrict(thread) : -EINVAL);
    }
  } else if (call->number() == SYS_prctl && call->argument(0) == PR_SET_SYSCALL_USER_DISPATCH) {
    call->set_result(SetDispatch(thread, *call));
  } else if (call->number() == SYS_seccomp && operation <= SECCOMP_SET_MODE_FILTER) {
    const auto flags = static_cast<uint32_t>(call->argument(1));
    call->set_result(HandleSeccomp(thread, operation, flags, call->argument(2)));
  } else {
    return false;
  }
  return true;
}

bool MakesFilterListener(const GuestCall& call) {
  const auto flags = static_cast<uint32_t>(call.argument(1));
  sock_fprog program;
  // Libraries ask so, without a program, whether the kernel knows the flag.
  return call.number() == SYS_seccomp && call.argument(0) == SECCOMP_SET_MODE_FILTER &&
         (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0 && AreValidFlags(flags) &&
         CopyGuest(&program, PointerTo<void>(call.argument(2)), sizeof(program));
}

void CopyFilters(const Thread& from, Thread* to) {
  to->filters = from.filters;
  to->filter_generation = from.filter_generation;
  to->strict_calls = from.strict_calls;
}

void InstallFilters(const Thread& thread) {
  InstallWithEarlier(thread.filters);
  const CallDispatch& dispatch = thread.dispatch;
  if (thread.strict_calls != 0) {
    Call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  } else if (dispatch.on != 0) {
    Call(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, dispatch.start,
         dispatch.bytes, dispatch.selector);
  }
}

void ForgetFilterLock() { shared.lock = 0; }

}  // namespace hindsight::agent
