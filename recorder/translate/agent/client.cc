#include "recorder/translate/agent/client.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/stream/record_ring.h"

namespace hindsight::agent {
namespace {

// The recorder answers most requests in less time than a thread needs to sleep and to wake, some 30
// us. It may be waiting for this very processor.
constexpr int kSpins = 2000, kSpinsAtOnce = 50;

uint32_t* Word(SlotState* state) { return reinterpret_cast<uint32_t*>(state); }

void RingDoorbell() {
  ControlBlock* control = Control();
  __atomic_fetch_add(&control->doorbell, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&control->service_sleeps, __ATOMIC_SEQ_CST) != 0) {
    Call(SYS_futex, AddressOf(&control->doorbell), FUTEX_WAKE, 1);
  }
}

// False: nobody answers.
bool Await(RequestSlot* slot) {
  for (int i = 0; i < kSpins; ++i) {
    if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SlotState::kAnswered) return true;
    asm volatile("pause");
    if (i % kSpinsAtOnce == kSpinsAtOnce - 1) Call(SYS_sched_yield);
  }
  SlotState posted = SlotState::kPosted;
  __atomic_compare_exchange_n(&slot->state, &posted, SlotState::kAwaited, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  SlotState state;
  while ((state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE)) != SlotState::kAnswered) {
    if (state == SlotState::kIdle) return false;  // taken back
    const timespec patience = {0, 100'000'000};
    if (Call(SYS_futex, AddressOf(Word(&slot->state)), FUTEX_WAIT,
             static_cast<uint32_t>(SlotState::kAwaited), AddressOf(&patience)) == -ETIMEDOUT &&
        IsAbandoned()) {
      return false;
    }
  }
  return true;
}

Answer AskBy(RequestSlot* slot, int32_t thread_id, RequestKind kind, const Arguments& arguments) {
  if (Control()->leave != 0) return {};
  slot->kind = kind;
  slot->thread_id = thread_id;
  memcpy(slot->arguments, arguments.words, sizeof(slot->arguments));
  __atomic_store_n(&slot->state, SlotState::kPosted, __ATOMIC_SEQ_CST);
  RingDoorbell();
  if (!Await(slot)) return {};
  Answer answer;
  for (int i = 0; i < kRequestWords; ++i) answer.results[i] = slot->results[i];
  __atomic_store_n(&slot->state, SlotState::kIdle, __ATOMIC_RELEASE);
  return answer;
}

// Null: there is none.
RequestSlot* TakeStrangersSlot(int32_t thread_id) {
  RequestSlot* const slots = Control()->slots;
  for (uint32_t i = kFirstStranger; i < kSlotCount; ++i) {
    uint32_t nobody = 0;
    if (__atomic_compare_exchange_n(&slots[i].taken, &nobody, static_cast<uint32_t>(thread_id),
                                    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return &slots[i];
    }
  }
  return nullptr;
}

}  // namespace

bool IsAbandoned() {
  const ControlBlock* control = Control();
  if (__atomic_load_n(&control->leave, __ATOMIC_ACQUIRE) != 0) return true;
  const uint32_t life = __atomic_load_n(&control->lifeline.word, __ATOMIC_ACQUIRE);
  if ((life & FUTEX_OWNER_DIED) != 0) EndAtOnce();
  const auto recorder = static_cast<uint64_t>(control->recorder_process);
  if (life == 0 && recorder != 0 && Call(SYS_kill, recorder, 0) == -ESRCH) EndAtOnce();
  return false;
}

void EndAtOnce() {
  while (true) {
    Call(SYS_kill, static_cast<uint64_t>(Call(SYS_getpid)), SIGKILL);
    Call(SYS_exit_group, 128 + SIGKILL);
  }
}

uint64_t AskForBirth(Thread* thread, int64_t file, const Birth& birth) {
  struct stat status = {};
  if (!IsError(file)) Call(SYS_fstat, static_cast<uint64_t>(file), AddressOf(&status));
  const uint64_t process = static_cast<uint32_t>(birth.process) | static_cast<uint64_t>(birth.epoch)
                                                                      << 32;
  const Answer answer = AskAsStranger(
      thread->thread_id, RequestKind::kFork,
      {{static_cast<uint64_t>(thread->process_id), static_cast<uint64_t>(file), thread->number,
        static_cast<uint64_t>(birth.maker), birth.count, process, status.st_ino}});
  if (answer.results[1] != 0) {
    thread->recorded_process = thread->recorded_thread = static_cast<int32_t>(answer.results[1]);
    thread->in_namespace = static_cast<uint32_t>(answer.results[2]);
  }
  return answer.results[0];
}

void TellNumber(Thread* thread) {
  auto* ring = PointerTo<HsRing>(RingOf(thread->number));
  ring->thread = 0;
  if (thread->in_namespace == 0) return;
  const Answer answer = Ask(thread, RequestKind::kNumber, static_cast<uint64_t>(thread->thread_id),
                            static_cast<uint64_t>(thread->recorded_process));
  if (answer.results[0] != 0) thread->recorded_thread = static_cast<int32_t>(answer.results[0]);
  ring->thread = thread->recorded_thread;
}

Answer Ask(Thread* thread, RequestKind kind, uint64_t a, uint64_t b) {
  return AskBy(&Control()->slots[thread->number], thread->recorded_thread, kind, {{a, b}});
}

Answer AskAsStranger(int32_t thread_id, RequestKind kind, const Arguments& arguments) {
  while (true) {
    if (RequestSlot* const slot = TakeStrangersSlot(thread_id)) {
      const Answer answer = AskBy(slot, thread_id, kind, arguments);
      __atomic_store_n(&slot->taken, 0, __ATOMIC_RELEASE);
      return answer;
    }
    if (IsAbandoned()) return {};
    // The recorder takes back those of whoever was killed.
    __atomic_store_n(&Control()->strangers_wait, 1, __ATOMIC_SEQ_CST);
    RingDoorbell();
    const timespec pause = {0, 1'000'000};
    Call(SYS_nanosleep, AddressOf(&pause), 0);
  }
}

void SettleSlot(const Thread& thread) {
  RequestSlot* const slot = &Control()->slots[thread.number];
  const SlotState state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
  if (state == SlotState::kPosted || state == SlotState::kAwaited) Await(slot);
  __atomic_store_n(&slot->state, SlotState::kIdle, __ATOMIC_RELEASE);
}

void OpenGuardIfWanted(Thread* thread) {
  GuardState* const state = &Control()->guard;
  GuardState wanted = GuardState::kWanted;
  // A child of vfork has the memory, but descriptors of its own.
  if (__atomic_load_n(state, __ATOMIC_RELAXED) != wanted || thread->alone != 0 ||
      !__atomic_compare_exchange_n(state, &wanted, GuardState::kOpening, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  const int64_t file = Call(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  const bool open = !IsError(file) &&
                    Ask(thread, RequestKind::kGuard, static_cast<uint64_t>(file)).results[0] != 0;
  if (!IsError(file)) Call(SYS_close, static_cast<uint64_t>(file));
  __atomic_store_n(state, open ? GuardState::kOpen : GuardState::kImpossible, __ATOMIC_RELEASE);
}

void Invalidate(Thread* thread, uint64_t start, uint64_t end) {
  const ControlBlock* control = Control();
  const uint32_t count = __atomic_load_n(&control->executed_range_count, __ATOMIC_ACQUIRE);
  bool any = count >= kMaxExecutedRanges;  // not all are told
  for (uint32_t i = 0; i < count && !any; ++i) {
    any = control->executed_ranges[i].start < end && start < control->executed_ranges[i].end;
  }
  if (!any) return;
  Ask(thread, RequestKind::kInvalidate, start, end);
  thread->code_changed = 1;
}

}  // namespace hindsight::agent
