#include "recorder/translate/agent/orders.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/tasks.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

enum class Order : uint32_t { kNone, kEnd, kLeave, kStand };

Order given;
uint16_t given_reason;
uint32_t may_leave;  // a futex: 1 when nobody needs the agent's signal handlers any more
// Of kLeave: whether no order is sent any more, how many others leave, and how many of them have
// taken all that were sent to them.
uint32_t all_sent, leaving, taken_all;

// Of kStand: what those that stand still wait for, and how many have begun a segment.
enum class Stand : uint32_t { kGather, kRecord, kGiveUp };
Stand stand;
uint32_t recorded;
uint32_t failed_stands;  // since the last one that did not

// ns; doubled each time that it did not suffice, so many times at most: on a busy machine threads
// wait for a processor.
constexpr uint64_t kStandPatience = 20'000'000;
constexpr uint32_t kMostDoublings = 4;
constexpr uint64_t kSnapshotPatience = 50'000'000;  // ns
constexpr int kSnapshotTries = 8;
constexpr uint64_t kEndPatience = 20'000'000;  // ns
constexpr uint64_t kPause = 100'000;           // ns, between two looks at the others

uint64_t Nanoseconds() {
  timespec now;
  Call(SYS_clock_gettime, CLOCK_MONOTONIC, AddressOf(&now));
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void Pause() {
  const timespec pause = {0, kPause};
  Call(SYS_nanosleep, AddressOf(&pause), 0);
}

bool Give(Order order, uint16_t reason) {
  Order none = Order::kNone;
  if (!__atomic_compare_exchange_n(&given, &none, order, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST)) {
    return false;
  }
  given_reason = reason;
  return true;
}

void Send(const Thread& to) {
  int32_t info[32] = {SIGILL, 0, kOrderCode};
  Call(SYS_rt_tgsigqueueinfo, static_cast<uint64_t>(to.process_id),
       static_cast<uint64_t>(to.thread_id), SIGILL, AddressOf(info));
}

// Sends the order to all others that are recorded and do not stand still, but for those in system
// calls if they are to be left alone, unless it is on the way to them. How many there are.
int SendToOthers(const Thread& thread, bool also_in_calls) {
  int others = 0;
  for (uint64_t number = kFirstThread; number <= kLastThread; ++number) {
    if (number == thread.number || !IsGapRecorded(number)) continue;
    Thread& other = *ThreadOf(number);
    if (other.alone != 0 || __atomic_load_n(&other.standing, __ATOMIC_SEQ_CST) != 0) continue;
    const bool in_call = __atomic_load_n(&other.in_call, __ATOMIC_SEQ_CST) != 0;
    if (in_call && !also_in_calls && __atomic_load_n(&other.ordered, __ATOMIC_SEQ_CST) == 0) {
      continue;
    }
    __atomic_store_n(&other.ordered, 1, __ATOMIC_SEQ_CST);
    Send(other);
    ++others;
  }
  return others;
}

Order Given() { return __atomic_load_n(&given, __ATOMIC_SEQ_CST); }

uint32_t Standing() {
  uint32_t count = 0;
  for (uint64_t number = kFirstThread; number <= kLastThread; ++number) {
    if (!IsGapRecorded(number)) continue;
    count += __atomic_load_n(&ThreadOf(number)->standing, __ATOMIC_SEQ_CST);
  }
  return count;
}

// The part of one that was ordered to stand still.
void Stay(Thread* thread) {
  // A new order cannot come before this one has been left.
  __atomic_store_n(&thread->standing, 1, __ATOMIC_SEQ_CST);
  const auto stands = [] { return __atomic_load_n(&stand, __ATOMIC_SEQ_CST); };
  while (Given() == Order::kStand && stands() == Stand::kGather) Pause();
  if (Given() == Order::kStand && stands() == Stand::kRecord) {
    RecordStanding(thread, {});
    __atomic_add_fetch(&recorded, 1, __ATOMIC_SEQ_CST);
    while (Given() == Order::kStand && stands() == Stand::kRecord) Pause();
    __atomic_store_n(&thread->standing, 0, __ATOMIC_SEQ_CST);
    BeginStandingSegment(thread);
  }
  __atomic_store_n(&thread->standing, 0, __ATOMIC_SEQ_CST);
}

// Whether all others of the process stand still: not while one is being made, or ends.
bool Gather(const Thread& thread, uint64_t patience) {
  const uint64_t start = Nanoseconds();
  while (SendToOthers(thread, /*also_in_calls=*/true) != 0 || Standing() + 1 != RecordedThreads() ||
         IsAnyUnrecorded()) {
    if (Nanoseconds() - start > patience) return false;
    Pause();
  }
  return true;
}

enum class Outcome : uint32_t {
  kDone,
  kOther,      // something else was ordered
  kUnreached,  // not all could be stopped
};

uint64_t PatienceFor(const StandReason& reason) {
  if (reason.trigger != 0) return kSnapshotPatience;
  const uint32_t failed = __atomic_load_n(&failed_stands, __ATOMIC_RELAXED);
  return kStandPatience << (failed < kMostDoublings ? failed : kMostDoublings);
}

Outcome TryStandStill(Thread* thread, const StandReason& reason) {
  const uint64_t began = __builtin_ia32_rdtsc();
  if (!Give(Order::kStand, 0)) {
    thread->SetPending(kOrderPending);
    return Outcome::kOther;
  }
  __atomic_store_n(&recorded, 0, __ATOMIC_SEQ_CST);
  const bool all = Gather(*thread, PatienceFor(reason));
  __atomic_store_n(&failed_stands, all ? 0 : failed_stands + 1, __ATOMIC_RELAXED);
  if (all) {
    const uint32_t others = Standing();
    __atomic_store_n(&stand, Stand::kRecord, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&recorded, __ATOMIC_SEQ_CST) != others) Pause();
    RecordStanding(thread, {began, reason});
  }
  __atomic_store_n(&stand, Stand::kGiveUp, __ATOMIC_SEQ_CST);
  while (Standing() != 0) Pause();
  __atomic_store_n(&stand, Stand::kGather, __ATOMIC_SEQ_CST);
  __atomic_store_n(&given, Order::kNone, __ATOMIC_SEQ_CST);
  if (all) BeginStandingSegment(thread);
  return all ? Outcome::kDone : Outcome::kUnreached;
}

// Gives the order, or does what was ordered meanwhile until it may.
void GiveForGood(Thread* thread, Order order, uint16_t reason) {
  while (!Give(order, reason)) Obey(thread);
}

// After all_sent. Without a handler, an order that was on the way would end the process.
void TakeLastOrder() { Call(SYS_getpid); }

[[noreturn]] void LeaveOnceAllowed(Thread* thread) {
  BlockSignals();
  while (__atomic_load_n(&all_sent, __ATOMIC_SEQ_CST) == 0) Pause();
  TakeLastOrder();
  __atomic_fetch_add(&taken_all, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&may_leave, __ATOMIC_ACQUIRE) == 0) {
    Call(SYS_futex, AddressOf(&may_leave), FUTEX_WAIT_PRIVATE, 0);
  }
  LeaveAlone(thread);
}

bool ChangeTracing(Tracing from, Tracing to) {
  return __atomic_compare_exchange_n(&Control()->tracing, &from, to, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

// Until the recorder sends no signals any more. Whether it may have sent some.
bool AwaitRecordersLastSignal() {
  if (ChangeTracing(Tracing::kNo, Tracing::kLeft)) return false;
  ChangeTracing(Tracing::kWanted, Tracing::kLeaving);
  while (__atomic_load_n(&Control()->tracing, __ATOMIC_SEQ_CST) == Tracing::kLeaving &&
         !IsAbandoned()) {
    Pause();
  }
  return true;
}

// All others that are not left alone in system calls have left, and wait for may_leave.
void GatherToLeave(Thread* thread, uint16_t reason) {
  const bool also_in_calls = AwaitRecordersLastSignal() || reason == HS_END_TRACED;
  while (SendToOthers(*thread, also_in_calls) != 0) Pause();
  __atomic_store_n(&all_sent, 1, __ATOMIC_SEQ_CST);
  TakeLastOrder();
  while (__atomic_load_n(&taken_all, __ATOMIC_SEQ_CST) !=
         __atomic_load_n(&leaving, __ATOMIC_SEQ_CST)) {
    Pause();
  }
}

}  // namespace

bool IsOrder(const int32_t* info) { return info[0] == SIGILL && info[2] == kOrderCode; }

void ForgetOrders() {
  given = Order::kNone;
  stand = Stand::kGather;
  failed_stands = 0;
  may_leave = all_sent = leaving = taken_all = 0;
}

void LookForOrder(Thread* thread) {
  if (thread->alone == 0 && Given() != Order::kNone) {
    thread->SetPending(kOrderPending);
  }
}

void EndOthers(Thread* thread) {
  if (thread->alone != 0) return;
  GiveForGood(thread, Order::kEnd, HS_END_EXIT);
  const uint64_t start = Nanoseconds();
  while (SendToOthers(*thread, /*also_in_calls=*/true) != 0 &&
         Nanoseconds() - start < kEndPatience) {
    Pause();
  }
}

[[noreturn]] void LeaveAll(Thread* thread, uint16_t reason) {
  if (thread->alone == 0) {
    GiveForGood(thread, Order::kLeave, reason);
    GatherToLeave(thread, reason);
  }
  EndRecording(thread, reason);
  GiveBackSignals(thread);
  if (thread->alone == 0) {
    __atomic_store_n(&Control()->tracing, Tracing::kLeft, __ATOMIC_SEQ_CST);
    __atomic_store_n(&may_leave, 1, __ATOMIC_RELEASE);
    Call(SYS_futex, AddressOf(&may_leave), FUTEX_WAKE_PRIVATE, kLastThread);
  }
  LeaveAlone(thread);
}

bool StandStill(Thread* thread, const StandReason& reason) {
  return TryStandStill(thread, reason) == Outcome::kDone;
}

void TakeSnapshot(Thread* thread, const StandReason& reason) {
  // One that is made by vfork has another's memory.
  if (!IsRecorded(*thread) || thread->alone != 0) return;
  for (int failures = 0; failures < kSnapshotTries;) {
    if (__atomic_load_n(&Control()->snapshots_over, __ATOMIC_ACQUIRE) != 0) return;
    const Outcome outcome = TryStandStill(thread, reason);
    if (outcome == Outcome::kDone) return;
    failures += outcome == Outcome::kUnreached;
    // What was ordered instead goes first.
    if ((thread->pending & kOrderPending) != 0) Obey(thread);
    Pause();
  }
  __atomic_add_fetch(&Control()->snapshots_missed, 1, __ATOMIC_RELAXED);
}

void TakeSnapshotIfWanted(Thread* thread) {
  uint32_t* const wanted = &Control()->snapshot_wanted;
  if (__atomic_load_n(wanted, __ATOMIC_RELAXED) == 0 || !IsRecorded(*thread)) return;
  if (thread->alone != 0) return;
  const uint32_t trigger = __atomic_exchange_n(wanted, 0, __ATOMIC_ACQ_REL);
  if (trigger != 0) TakeSnapshot(thread, {trigger, 0});
}

void TakeSnapshotBefore(Thread* thread, int signal) {
  const bool wanted = (Boot().snapshot_signals >> (signal - 1) & 1) != 0;
  if (wanted) TakeSnapshot(thread, {HS_STAND_SIGNAL, static_cast<uint64_t>(signal)});
}

void Obey(Thread* thread) {
  thread->ClearPending(kOrderPending);
  __atomic_store_n(&thread->ordered, 0, __ATOMIC_SEQ_CST);
  switch (Given()) {
    case Order::kNone:  // it came too late
      return;
    case Order::kStand:
      Stay(thread);
      return;
    case Order::kLeave:
      __atomic_fetch_add(&leaving, 1, __ATOMIC_SEQ_CST);
      EndRecording(thread, given_reason);
      LeaveOnceAllowed(thread);
    case Order::kEnd:
      break;
  }
  EndRecording(thread, HS_END_EXIT);
  BlockSignals();
  while (true) Pause();
}

}  // namespace hindsight::agent
