#include "recorder/translate/agent/orders.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/system.h"

namespace hindsight::agent {
namespace {

enum class Order : uint32_t { kNone, kEnd, kLeave };

Order given;
uint16_t given_reason;
uint32_t may_leave;  // a futex: 1 when nobody needs the agent's signal handlers any more

// The kernel's own codes are above SI_ASYNCNL (-60).
constexpr int32_t kOrderCode = -0x4853;

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

// Sends the order to all others that are recorded, but for those in system calls if they are to be
// left alone. How many there are.
int SendToOthers(const Thread& thread, bool also_in_calls) {
  int others = 0;
  for (uint64_t number = kFirstThread; number <= kLastThread; ++number) {
    if (number == thread.number || !IsGapRecorded(number)) continue;
    const Thread& other = *ThreadOf(number);
    if (other.alone != 0) continue;
    if (!also_in_calls && __atomic_load_n(&other.in_call, __ATOMIC_SEQ_CST) != 0) continue;
    Send(other);
    ++others;
  }
  return others;
}

[[noreturn]] void LeaveOnceAllowed(Thread* thread) {
  BlockSignals();
  while (__atomic_load_n(&may_leave, __ATOMIC_ACQUIRE) == 0) {
    Call(SYS_futex, AddressOf(&may_leave), FUTEX_WAIT_PRIVATE, 0);
  }
  LeaveAlone(thread);
}

}  // namespace

bool IsOrder(const int32_t* info) { return info[0] == SIGILL && info[2] == kOrderCode; }

void ForgetOrders() {
  given = Order::kNone;
  may_leave = 0;
}

void LookForOrder(Thread* thread) {
  if (thread->alone == 0 && __atomic_load_n(&given, __ATOMIC_SEQ_CST) != Order::kNone) {
    thread->SetPending(kOrderPending);
  }
}

void EndOthers(Thread* thread) {
  if (thread->alone != 0) return;
  if (!Give(Order::kEnd, HS_END_EXIT)) Obey(thread);
  const uint64_t start = Nanoseconds();
  while (SendToOthers(*thread, /*also_in_calls=*/true) != 0 &&
         Nanoseconds() - start < kEndPatience) {
    Pause();
  }
}

[[noreturn]] void LeaveAll(Thread* thread, uint16_t reason) {
  if (thread->alone == 0) {
    if (!Give(Order::kLeave, reason)) Obey(thread);
    while (SendToOthers(*thread, /*also_in_calls=*/false) != 0) Pause();
  }
  EndRecording(thread, reason);
  GiveBackSignals(thread);
  if (thread->alone == 0) {
    __atomic_store_n(&may_leave, 1, __ATOMIC_RELEASE);
    Call(SYS_futex, AddressOf(&may_leave), FUTEX_WAKE_PRIVATE, kLastThread);
  }
  LeaveAlone(thread);
}

[[noreturn]] void Obey(Thread* thread) {
  if (__atomic_load_n(&given, __ATOMIC_SEQ_CST) == Order::kLeave) {
    EndRecording(thread, given_reason);
    LeaveOnceAllowed(thread);
  }
  EndRecording(thread, HS_END_EXIT);
  BlockSignals();
  while (true) Pause();
}

}  // namespace hindsight::agent
