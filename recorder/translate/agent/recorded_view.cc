// What a thread's view takes from memory, outside translated code.

#include <sys/mman.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/float_state.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/view/byte_hash.h"
#include "recorder/translate/view/thread_view.h"

namespace hindsight::agent {

bool TakeRead(Thread* thread, uint64_t address, uint64_t bytes) {
  if (IsDirect(*thread)) return TellStored(thread, address, bytes);
  ThreadView& view = ViewOf(*thread);
  return view.TouchAll(address, bytes, thread->count) &&
         view.Compare(address, bytes, thread->count);
}

namespace {

// Bytes of the thread's for guards, from the first one on.
uint64_t GuardBytes(const Thread& thread) {
  return DistanceOf(thread.number) + static_cast<uint64_t>(int64_t{HS_GUARDS_OFFSET});
}

}  // namespace

void TakeGuarded(Thread* thread) {
  constexpr uint64_t kPage = ThreadView::kPage;
  // A guard that begins only now has another byte.
  const int32_t place =
      __atomic_load_n(PointerTo<const int32_t>(thread->block->exit_guard), __ATOMIC_ACQUIRE);
  const auto number = static_cast<uint32_t>(place - HS_GUARDS_OFFSET - HS_GS_SHIFT);
  const uint64_t page = thread->pc & ~(kPage - 1);
  if (number >= HS_GUARDS || (IsRecorded(*thread) && !TakeRead(thread, page, kPage))) return;
  *PointerTo<uint8_t>(GuardBytes(*thread) + number) = 1;
}

void ForgetGuards(const Thread& thread) {
  const GuardState state = __atomic_load_n(&Control()->guard, __ATOMIC_ACQUIRE);
  if (state == GuardState::kOpening || state == GuardState::kOpen) ForgetInheritedGuards(thread);
}

void ForgetInheritedGuards(const Thread& thread) {
  Call(SYS_madvise, GuardBytes(thread), HS_GUARDS, MADV_DONTNEED);
}

void TakeShared(Thread* thread) {
  if (IsRecorded(*thread)) ViewOf(*thread).CompareShared(thread->count);
}

void TakeMiss(Thread* thread, uint64_t address, uint64_t bytes) {
  ViewOf(*thread).Compare(address, bytes, thread->count);
}

bool TakeViewFault(Thread* thread, uint64_t address, ThreadView::StateAt at) {
  ThreadView& view = ViewOf(*thread);
  return IsRecorded(*thread) && view.IsView(address) && view.Touch(address - view.distance(), at);
}

uint64_t GuestAddress(const Thread& thread, uint64_t address) {
  const ThreadView& view = ViewOf(thread);
  return IsRecorded(thread) && view.IsView(address) ? address - view.distance() : address;
}

void TakeReplaced(Thread* thread, uint64_t start, uint64_t end, uint64_t moved) {
  ForgetGuards(*thread);
  ViewOf(*thread).EnterAgain(start, end, moved, thread->count);
}

void TakeFailedStore(Thread* thread, uint64_t address) {
  if (!IsRecorded(*thread)) return;
  if (IsDirect(*thread)) {
    constexpr uint64_t kMostInPart = 9;
    const uint64_t end = address & ~uint64_t{4095};
    if (IsStoredInPart(*thread, address)) TellStored(thread, end - kMostInPart, kMostInPart);
    return;
  }
  ThreadView& view = ViewOf(*thread);
  constexpr uint64_t kLargestStore = 64;
  const uint64_t places[] = {address - kLargestStore, address, address + kLargestStore};
  for (const uint64_t at : places) {
    if (view.Holds(at) && !view.Compare(at, 1, thread->count)) {
      ForgetGuards(*thread);
      view.Drop(at & ~uint64_t{4095}, (at | 4095) + 1);
    }
  }
}

void RecordSeen(Thread* thread, uint64_t address, uint64_t bytes) {
  uint8_t copy[ThreadView::kPage];
  const void* seen = PointerTo<const void>(address + DistanceOf(thread->number));
  if (!IsRecorded(*thread) || bytes > sizeof(copy)) return;
  if (IsDirect(*thread)) {
    if (!CopyGuest(copy, PointerTo<const void>(address), bytes)) return;
    seen = copy;
  } else if (!ViewOf(*thread).Holds(address)) {
    return;
  }
  WriterOf(*thread).Hash(thread->count, address, bytes, HashBytes(seen, bytes));
}

}  // namespace hindsight::agent
