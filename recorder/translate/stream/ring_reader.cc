#include "recorder/translate/stream/ring_reader.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

template <typename T>
T Acquire(const T* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

// What the agent sees of the tail may be so much behind: to move it is to take a line of the cache
// from the agent, and a fence.
constexpr uint64_t kMostUnpublished = 64 * 1024;

}  // namespace

absl::StatusOr<const HsEntry*> RingReader::Peek() {
  if (!has_entry_) RETURN_IF_ERROR(Fetch());
  return has_entry_ ? reinterpret_cast<const HsEntry*>(entry_.data()) : nullptr;
}

absl::Status RingReader::Fetch() {
  const uint8_t* const entries = reinterpret_cast<const uint8_t*>(ring_) + HS_RING_HEADER_BYTES;
  while (true) {
    if (head_ == tail_) head_ = Acquire(&ring_->head);
    const uint64_t filled = head_ - tail_;
    if (filled == 0) {
      PublishTail(tail_);
      return absl::OkStatus();
    }
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
    if (entry_.size() < head.size / 8) entry_.resize(head.size / 8);
    std::memcpy(entry_.data(), entries + offset, head.size);
    // As it was checked, whatever is there by now.
    reinterpret_cast<HsEntry*>(entry_.data())->size = head.size;
    has_entry_ = true;
    return absl::OkStatus();
  }
}

void RingReader::Done() {
  if (!std::exchange(has_entry_, false)) return;
  MoveTail(reinterpret_cast<const HsEntry*>(entry_.data())->size);
}

// What was read of it is a copy.
void RingReader::LetGo() {
  if (!has_entry_) return;
  PublishTail(tail_ + reinterpret_cast<const HsEntry*>(entry_.data())->size);
}

void RingReader::MoveTail(uint64_t bytes) {
  tail_ += bytes;
  if (tail_ >= published_ + std::min(kMostUnpublished, capacity_ / 8)) PublishTail(tail_);
}

void RingReader::PublishTail(uint64_t tail) {
  if (published_ == tail) return;
  published_ = tail;
  // The order of the two is the agent's in reverse: it says that it waits, and looks again.
  __atomic_store_n(&ring_->tail, tail, __ATOMIC_SEQ_CST);
  if (__atomic_exchange_n(&ring_->tail_waiters, 0, __ATOMIC_SEQ_CST) != 0) {
    syscall(SYS_futex, &ring_->tail_waiters, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void RingReader::SkipAll() {
  has_entry_ = false;
  head_ = Acquire(&ring_->head);
  MoveTail(head_ - tail_);
  PublishTail(tail_);
}

bool RingReader::IsQuiet() const {
  return Acquire(&ring_->writing) == 0 && Acquire(&ring_->head) == tail_;
}

}  // namespace hindsight
