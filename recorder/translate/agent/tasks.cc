#include "recorder/translate/agent/tasks.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/exclusive_memory.h"
#include "recorder/translate/agent/orders.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/signal_frame.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

enum class GapState : uint32_t { kNeverUsed, kUsed, kEnding, kFree };

// The gaps of this address space. One that is kEnding is free once its thread is gone.
struct Gap {
  GapState state;
  int32_t process_id, thread_id;
};
Gap gaps[kLastThread + 1];

// Of a recorded process.
uint32_t recorded_threads = 1;
uint64_t leader_status;  // as wait(2) reports it, if its process ends with its last thread

bool Take(Gap* gap, GapState from) {
  return __atomic_compare_exchange_n(&gap->state, &from, GapState::kUsed, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

bool IsGone(const Gap& gap) {
  return Call(SYS_tgkill, static_cast<uint64_t>(gap.process_id),
              static_cast<uint64_t>(gap.thread_id), 0) == -ESRCH;
}

// A gap that nobody uses; null if there is none.
Thread* TakeThread(bool with_kept_view) {
  for (uint64_t number = kFirstThread; number <= kLastThread; ++number) {
    Gap* gap = &gaps[number];
    if (IsEndedViewKept(number) && !with_kept_view) continue;
    if (Take(gap, GapState::kFree)) return ResetThread(number);
    if (gap->state == GapState::kEnding && IsGone(*gap) && Take(gap, GapState::kEnding)) {
      return ResetThread(number);
    }
    if (Take(gap, GapState::kNeverUsed)) return MakeThread(number);
  }
  return nullptr;
}

Thread* TakeThread() {
  Thread* const thread = TakeThread(/*with_kept_view=*/false);
  return thread != nullptr ? thread : TakeThread(/*with_kept_view=*/true);
}

void GiveBack(const Thread& thread, GapState state) {
  Gap* gap = &gaps[thread.number];
  gap->process_id = thread.process_id;
  gap->thread_id = thread.thread_id;
  __atomic_store_n(&gap->state, state, __ATOMIC_RELEASE);
}

// A call that makes a task, in whichever of four ways.
struct NewTask {
  GuestCall call;
  GuestCall made;  // as the guest made it
  uint64_t flags = 0;
  uint64_t stack = 0;  // the child's stack pointer; 0: the parent's
  uint64_t tls = 0;
  clone_args arguments = {};  // of clone3
};

int64_t ReadCloneArguments(NewTask* task) {
  constexpr uint64_t kMostBytes = 4096;
  const uint64_t address = task->call.argument(0), bytes = task->call.argument(1);
  clone_args& arguments = task->arguments;
  if (bytes < CLONE_ARGS_SIZE_VER0) return -EINVAL;
  if (bytes > kMostBytes) return -E2BIG;
  const uint64_t known = bytes < sizeof(arguments) ? bytes : sizeof(arguments);
  if (!CopyGuest(&arguments, PointerTo<void>(address), known)) return -EFAULT;
  for (uint64_t i = known; i < bytes; ++i) {
    char unknown;
    if (!CopyGuest(&unknown, PointerTo<void>(address + i), 1)) return -EFAULT;
    if (unknown != 0) return -E2BIG;
  }
  task->call.set_argument(1, known);
  if ((arguments.stack == 0) != (arguments.stack_size == 0)) return -EINVAL;
  task->flags = arguments.flags;
  task->tls = arguments.tls;
  if (arguments.stack != 0) task->stack = arguments.stack + arguments.stack_size;
  arguments.stack = arguments.stack_size = 0;
  task->call.set_argument(0, AddressOf(&arguments));
  return 0;
}

// Reads what the call wants, and has it make a task on the stack of the caller. 0 or an error.
int64_t Analyse(NewTask* task) {
  GuestCall* call = &task->call;
  switch (call->number()) {
    case SYS_fork:
      task->flags = SIGCHLD;
      return 0;
    case SYS_vfork:
      task->flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
      return 0;
    case SYS_clone:
      task->flags = call->argument(0);
      task->stack = call->argument(1);
      task->tls = call->argument(4);
      call->set_argument(1, 0);
      return 0;
    default:
      return ReadCloneArguments(task);
  }
}

void SetChildRegisters(Thread* child, const NewTask& task) {
  if (task.stack != 0) child->registers[kRsp] = task.stack;
  if ((task.flags & CLONE_SETTLS) != 0) child->block->fs_base = task.tls;
  child->process_id = static_cast<int32_t>(Call(SYS_getpid));
  child->thread_id = static_cast<int32_t>(Call(SYS_gettid));
  // A thread of a process in a PID namespace has that process's number.
  if (child->in_namespace == 0) child->recorded_process = child->process_id;
  child->recorded_thread = child->thread_id;
}

Birth BirthBy(const Thread& maker) {
  return {maker.recorded_process, maker.recorded_thread, maker.count, Control()->epoch};
}

// The child has its own memory from now on: also its own translated code. Not if the answer is
// kForkNative.
uint64_t SeparateFromParent(Thread* thread, const Birth& birth) {
  for (uint64_t number = 0; number <= kLastThread; ++number) {
    if (gaps[number].state != GapState::kNeverUsed) gaps[number].state = GapState::kFree;
  }
  gaps[thread->number].state = GapState::kUsed;
  const int64_t file = MakeMemoryFileAnyway();
  const uint64_t answer = AskForBirth(thread, file, birth);
  if (Boot().record_children != 0) __atomic_sub_fetch(&Control()->unborn, 1, __ATOMIC_SEQ_CST);
  if (answer != kForkNative && MapShared(static_cast<int>(file)) != 0) EndAtOnce();
  if (!IsError(file)) Call(SYS_close, static_cast<uint64_t>(file));
  return answer;
}

[[noreturn]] void GoOnNativelyAsChild(Thread* thread) {
  ForgetRecording(thread);
  FinishCall(thread, 0);
  BlockSignals();
  GiveBackSignals(thread);
  LeaveAlone(thread);
}

void ForgetParent(Thread* thread) {
  ForgetAllRecordings();
  ForgetOrders();
  ForgetFilterLock();
  ForgetAsChild();
  recorded_threads = 1;
  leader_status = 0;
  thread->alone = 0;
  thread->ClearPending(kOrderPending);
}

[[noreturn]] void StartForked(Thread* thread, bool recorded, const Birth& birth) {
  thread->held = 0;  // a child has none of its parent's
  thread->dispatch = {};
  if (recorded) {
    ForgetParent(thread);
    if (Boot().record_children == 0) GoOnNativelyAsChild(thread);
  }
  const uint64_t answer = SeparateFromParent(thread, birth);
  if (answer == kForkNative) GoOnNativelyAsChild(thread);
  FinishCall(thread, 0);
  if (answer == kForkRecorded) {
    thread->count = 0;
    if (StartRecording(thread) != 0) EndAtOnce();
  }
  RestoreSignalMask(*thread);
  Continue(thread);
}

void Fork(Thread* thread, NewTask* task) {
  const bool recorded = IsRecorded(*thread), asks = recorded && Boot().record_children != 0;
  const Birth birth = BirthBy(*thread);
  const uint64_t* w = task->call.words;
  if (asks) __atomic_add_fetch(&Control()->unborn, 1, __ATOMIC_SEQ_CST);
  const int64_t result = Call(static_cast<long>(w[0]), w[1], w[2], w[3], w[4], w[5], w[6]);
  if (result == 0) {
    SetChildRegisters(thread, *task);
    StartForked(thread, recorded, birth);
  }
  if (asks && IsError(result)) __atomic_sub_fetch(&Control()->unborn, 1, __ATOMIC_SEQ_CST);
  RecordCall(thread, task->made, result, {.clone_flags = task->flags, .ring = 0});
  FinishCall(thread, result);
  if ((task->flags & (CLONE_PARENT_SETTID | CLONE_PIDFD)) != 0) TakeUnknownOutputs(thread);
}

enum class ChildKind { kTranslated, kRecordedThread, kRecordedProcess, kNative };

struct ChildStart {
  Thread* thread;
  ChildKind kind;
  Birth birth;
  const NewTask* task;
  uint32_t started;  // a futex, 1: the parent may forget the task
};

// The entry of the call that has made it must come first.
void BeginOnceRecorded(Thread* thread) {
  while (__atomic_load_n(&thread->released, __ATOMIC_ACQUIRE) == 0) {
    Call(SYS_futex, AddressOf(&thread->released), FUTEX_WAIT_PRIVATE, 0);
  }
  BeginRecording(thread);
  LookForOrder(thread);
}

void Release(Thread* child) {
  __atomic_store_n(&child->released, 1, __ATOMIC_RELEASE);
  Call(SYS_futex, AddressOf(&child->released), FUTEX_WAKE_PRIVATE, 1);
}

// Of a process that has its parent's memory for a while.
bool IsBorn(Thread* thread, const Birth& birth) {
  thread->alone = 1;
  const uint64_t answer = AskForBirth(thread, kParentsMemory, birth);
  __atomic_sub_fetch(&Control()->unborn, 1, __ATOMIC_SEQ_CST);
  return answer == kForkRecorded;
}

[[noreturn]] void StartChild(void* argument) {
  auto* start = static_cast<ChildStart*>(argument);
  Thread* thread = start->thread;
  Call(SYS_arch_prctl, ARCH_SET_GS, HsGsBase(DistanceOf(thread->number)));
  SetChildRegisters(thread, *start->task);
  const ChildKind kind = start->kind;
  const Birth birth = start->birth;
  if (kind == ChildKind::kRecordedThread || kind == ChildKind::kTranslated) TellNumber(thread);
  __atomic_store_n(&start->started, 1, __ATOMIC_RELEASE);
  Call(SYS_futex, AddressOf(&start->started), FUTEX_WAKE_PRIVATE, 1);
  if (kind == ChildKind::kNative || (kind == ChildKind::kRecordedProcess && !IsBorn(thread, birth)))
    GoOnNativelyAsChild(thread);
  StartThreadSignals(thread);
  FinishCall(thread, 0);
  thread->count = 0;
  if (kind == ChildKind::kRecordedThread) BeginOnceRecorded(thread);
  if (kind == ChildKind::kRecordedProcess) BeginProcessRecording(thread);
  Continue(thread);
}

// A child's state is its parent's at the call.
void CopyState(const Thread& from, Thread* to) {
  memcpy(to->registers, from.registers, sizeof(to->registers));
  to->flags = from.flags;
  to->pc = from.pc;
  to->signal_mask = from.signal_mask;
  to->software = from.software;
  to->block->guest_r10 = from.block->guest_r10;
  to->block->guest_r11 = from.block->guest_r11;
  to->block->fs_base = from.block->fs_base;
  to->block->gs_base = from.block->gs_base;
  to->no_time_stamps = from.no_time_stamps;
  to->recorded_process = from.recorded_process;
  to->in_namespace = from.in_namespace;
  CopyFilters(from, to);
}

ChildKind KindOfChild(const Thread& parent, const NewTask& task) {
  if (!IsRecorded(parent)) return ChildKind::kTranslated;
  if ((task.flags & CLONE_THREAD) != 0) return ChildKind::kRecordedThread;
  const bool recorded = (task.flags & CLONE_VFORK) != 0 && Boot().record_children != 0;
  return recorded ? ChildKind::kRecordedProcess : ChildKind::kNative;
}

bool IsRecordedKind(ChildKind kind) {
  return kind == ChildKind::kRecordedThread || kind == ChildKind::kRecordedProcess;
}

// Null if there is no room for one more.
Thread* TakeChild(ChildKind kind) {
  Thread* child = TakeThread();
  if (child == nullptr || !IsRecordedKind(kind) || ReserveRecording(*child) == 0) {
    return child;
  }
  GiveBack(*child, GapState::kFree);
  return nullptr;
}

void PrepareChild(const Thread& thread, const NewTask& task, Thread* child) {
  CopyState(thread, child);
  child->signal_stack = (task.flags & CLONE_VFORK) != 0 ? thread.signal_stack : kNoSignalStack;
  child->actions = thread.actions;
  if ((task.flags & CLONE_SIGHAND) == 0) child->actions = CopyActions(thread, child->number);
}

// A child that has had this memory for so long does not use it any more, whatever it does now.
void TakeBackMemory(Thread* child, ChildKind kind) {
  SettleSlot(*child);
  ForgetRecording(child);
  if (IsRecordedKind(kind)) ReleaseRecording(*child);
  GiveBack(*child, GapState::kFree);
}

int64_t MakeTask(Thread* thread, NewTask* task, ChildStart* start) {
  const bool vfork = (task->flags & CLONE_VFORK) != 0;
  const bool asks = start->kind == ChildKind::kRecordedProcess;
  Thread* child = start->thread;
  if (asks) __atomic_add_fetch(&Control()->unborn, 1, __ATOMIC_SEQ_CST);
  // The child has not even its own GS at first.
  BlockAllSignals();
  if (vfork) __atomic_store_n(&thread->in_call, 1, __ATOMIC_SEQ_CST);
  const int64_t result =
      AgentClone(task->call.words, PointerTo<void>(child->block->agent_stack), &StartChild, start);
  BlockSignals();
  __atomic_store_n(&thread->in_call, 0, __ATOMIC_SEQ_CST);
  if (IsRecorded(*thread)) LookForOrder(thread);
  if (asks && IsError(result)) __atomic_sub_fetch(&Control()->unborn, 1, __ATOMIC_SEQ_CST);
  if (IsError(result) || vfork) {
    TakeBackMemory(child, start->kind);
  } else {
    while (__atomic_load_n(&start->started, __ATOMIC_ACQUIRE) == 0) {
      Call(SYS_futex, AddressOf(&start->started), FUTEX_WAIT_PRIVATE, 0);
    }
  }
  return result;
}

void MakeSharing(Thread* thread, NewTask* task) {
  const ChildKind kind = KindOfChild(*thread, *task);
  Thread* child = TakeChild(kind);
  if (child == nullptr) {
    if (IsRecorded(*thread)) LeaveAll(thread, HS_END_THREAD);
    FinishCall(thread, -EAGAIN);
    return;
  }
  PrepareChild(*thread, *task, child);
  ChildStart start = {child, kind, BirthBy(*thread), task, 0};
  const int64_t result = MakeTask(thread, task, &start);
  const bool recorded = kind == ChildKind::kRecordedThread && !IsError(result);
  if (recorded) __atomic_fetch_add(&recorded_threads, 1, __ATOMIC_RELAXED);
  RecordCall(thread, task->made, result,
             {.clone_flags = task->flags, .ring = recorded ? child->number : 0});
  if (recorded) Release(child);
  FinishCall(thread, result);
  // What a child has stored that had this memory for so long.
  TakeUnknownOutputs(thread);
}

// The parent stands still for so long.
bool HasMemoryForAWhile(const NewTask& task) {
  return (task.flags & CLONE_VFORK) != 0 && (task.flags & CLONE_THREAD) == 0;
}

void HandleNewTask(Thread* thread, const GuestCall& call) {
  NewTask task = {.call = call, .made = call};
  const int64_t error = Analyse(&task);
  if (error != 0) {
    RecordCall(thread, call, error);
    FinishCall(thread, error);
    return;
  }
  BlockSignals();
  // A signal that comes in between is delivered first: the task must not get it as well.
  if (thread->pending != 0) return;
  if ((task.flags & CLONE_VM) != 0) {
    if (!HasMemoryForAWhile(task)) ShareMemory(thread);
    MakeSharing(thread, &task);
  } else {
    Fork(thread, &task);
  }
  RestoreSignalMask(*thread);
}

// Many calls look for a program in one folder after another; the recorder need not know of those.
bool LooksExecutable(const GuestCall& call) {
  const bool at = call.number() == SYS_execveat;
  const int64_t folder = at ? static_cast<int32_t>(call.argument(0)) : AT_FDCWD;
  const uint64_t flags = at ? call.argument(4) : 0;
  return Call(SYS_faccessat2, static_cast<uint64_t>(folder), call.argument(at ? 1 : 0), X_OK,
              flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) == 0;
}

// Returns if that failed, or a signal came before.
void Execute(Thread* thread, const GuestCall& made) {
  GuestCall call = made;
  const bool executable = LooksExecutable(call);
  // The new program's agent would be restricted, too.
  const bool limited = IsMemoryLimited();
  const bool restricted = limited || FilterMode(*thread) != 0 || thread->no_time_stamps != 0;
  if (executable && limited) InstallLimits();
  if (executable && restricted && IsRecorded(*thread)) LeaveAll(thread, HS_END_EXEC);
  const bool held = executable && Ask(thread, RequestKind::kExec).results[0] != 0;
  if (executable && !held && IsRecorded(*thread)) LeaveAll(thread, HS_END_EXEC);
  if (held) TellUsedMemory(thread);
  if (held) RecordExec(thread, made);
  PrepareSignalsForExec(thread);
  const bool done = AgentSystemCall(call.words);
  UndoPrepareForExec(thread);
  if (held) Ask(thread, RequestKind::kExec, 0, 1);
  if (!done) {
    RecordReached(thread, /*timed=*/false);
    return;
  }
  RecordCall(thread, made, call.result());
  FinishCall(thread, call.result());
}

// The last entries of a recorded thread.
void EndRecorded(Thread* thread, bool all, uint64_t status) {
  if (all || thread->alone != 0) {
    EndOthers(thread);
    RecordStatus(thread, status);
    EndRecording(thread, HS_END_EXIT);
    return;
  }
  if (thread->thread_id == thread->process_id) leader_status = status;
  if (__atomic_sub_fetch(&recorded_threads, 1, __ATOMIC_SEQ_CST) == 0) {
    RecordStatus(thread, leader_status);
  }
  KeepEndedView(*thread);
  EndRecording(thread, HS_END_EXIT);
}

// Returns if a signal came before: natively it may be one that ends the process.
void End(Thread* thread, const GuestCall& call) {
  BlockSignals();
  if (thread->pending != 0) return;
  EndTask(thread, call.number() == SYS_exit_group, (call.argument(0) & 0xff) << 8);
  while (true) Call(static_cast<long>(call.number()), call.argument(0));
}

}  // namespace

void EndTask(Thread* thread, bool all, uint64_t status) {
  if (IsRecorded(*thread)) EndRecorded(thread, all, status);
  Ask(thread, RequestKind::kExit, thread->count, all ? 1 : 0);
  PassOnSignals(thread);
  if (!all && thread->alone == 0) GiveBack(*thread, GapState::kEnding);
}

uint32_t RecordedThreads() { return __atomic_load_n(&recorded_threads, __ATOMIC_SEQ_CST); }

bool IsAnyUnrecorded() {
  for (uint64_t number = kFirstThread; number <= kLastThread; ++number) {
    const Gap& gap = gaps[number];
    const GapState state = __atomic_load_n(&gap.state, __ATOMIC_ACQUIRE);
    if (state == GapState::kUsed && !IsGapRecorded(number)) return true;
    if (state == GapState::kEnding && !IsGone(gap)) return true;
  }
  return false;
}

bool IsLastThread() { return __atomic_load_n(&recorded_threads, __ATOMIC_SEQ_CST) == 1; }

Thread* MakeFirstThread() { return TakeThread(); }

bool MakesOddTask(const GuestCall& call) {
  if (call.number() != SYS_clone && call.number() != SYS_clone3) return false;
  NewTask task = {.call = call, .made = call};
  constexpr uint64_t kShared = CLONE_VM | CLONE_SIGHAND;
  return Analyse(&task) == 0 && (task.flags & kShared) == kShared &&
         (task.flags & CLONE_THREAD) == 0;
}

bool HandleTaskCall(Thread* thread, const GuestCall& call) {
  switch (call.number()) {
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
    case SYS_clone3:
      HandleNewTask(thread, call);
      return true;
    case SYS_execve:
    case SYS_execveat:
      Execute(thread, call);
      return true;
    case SYS_exit:
    case SYS_exit_group:
      End(thread, call);
      return true;
    default:
      return false;
  }
}

}  // namespace hindsight::agent
