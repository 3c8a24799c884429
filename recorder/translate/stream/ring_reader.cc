#include "recorder/translate/stream/ring_reader.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

template <typename T>
T Acquire(const T* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

}  // namespace

absl::StatusOr<const HsEntry*> RingReader::Peek() {
  if (entry_.empty()) {
    const absl::Status fetched = Fetch();
    if (!fetched.ok()) return fetched;
  }
  return entry_.empty() ? nullptr : reinterpret_cast<const HsEntry*>(entry_.data());
}

absl::Status RingReader::Fetch() {
  const uint8_t* const entries = reinterpret_cast<const uint8_t*>(ring_) + HS_RING_HEADER_BYTES;
  while (true) {
    const uint64_t filled = Acquire(&ring_->head) - tail_;
    if (filled == 0) return absl::OkStatus();
    const uint64_t offset = tail_ % capacity_;
    HsEntry head = {};
    std::memcpy(&head, entries + offset, 8);
    const bool skip = head.kind == HS_ENTRY_SKIP;
    if (filled > capacity_ || head.size % 8 != 0 || head.size > filled ||
        head.size > capacity_ - offset || head.size < (skip ? 8 : sizeof(HsEntry))) {
      return absl::DataLossError(
          absl::StrCat("the program has overwritten what was recorded of it, at ", tail_));
    }
    if (skip) {
      MoveTail(head.size);
      continue;
    }
    entry_.resize(head.size / 8);
    std::memcpy(entry_.data(), entries + offset, head.size);
    // As it was checked, whatever is there by now.
    reinterpret_cast<HsEntry*>(entry_.data())->size = head.size;
    return absl::OkStatus();
  }
}

void RingReader::Done() {
  if (entry_.empty()) return;
  const uint32_t size = reinterpret_cast<const HsEntry*>(entry_.data())->size;
  entry_.clear();
  MoveTail(size);
}

void RingReader::MoveTail(uint64_t bytes) {
  tail_ += bytes;
  // The order of the two is the agent's in reverse: it says that it waits, and looks again.
  __atomic_store_n(&ring_->tail, tail_, __ATOMIC_SEQ_CST);
  if (__atomic_exchange_n(&ring_->tail_waiters, 0, __ATOMIC_SEQ_CST) != 0) {
    syscall(SYS_futex, &ring_->tail_waiters, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void RingReader::SkipAll() {
  entry_.clear();
  MoveTail(Acquire(&ring_->head) - tail_);
}

bool RingReader::IsQuiet() const {
  return Acquire(&ring_->writing) == 0 && Acquire(&ring_->head) == tail_;
}

}  // namespace hindsight
