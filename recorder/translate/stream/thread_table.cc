#include "recorder/translate/stream/thread_table.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "isa/host_features.h"

namespace hindsight {

ThreadTable::Thread::Thread(ThreadTable* table, pid_t thread, int32_t maker)
    : log(table->log_->writer(), thread, table->sequence_),
      scheduling(table->log_->pid(), thread),
      notes(&log, &scheduling),
      stream(table->process_, table, &log, &notes, maker) {}

ThreadTable::ThreadTable(StreamedProcess* process, ProcessLog* log, Sequence* sequence,
                         const TscClock* clock, absl::Span<HsRing* const> rings, uint64_t capacity)
    : process_(process), log_(log), sequence_(sequence), turns_(clock) {
  for (HsRing* ring : rings) {
    if (ring != nullptr) ring->capacity = capacity;
    readers_.push_back(ring == nullptr ? nullptr : std::make_unique<RingReader>(ring, capacity));
  }
}

absl::Status ThreadTable::Open(pid_t thread, int32_t maker, uint64_t ring) {
  if (ring >= readers_.size() || readers_[ring] == nullptr) {
    return absl::DataLossError(absl::StrCat("there is no ring ", ring));
  }
  threads_.emplace_back(this, thread, maker);
  merger_.Add(readers_[ring].get(), &threads_.back().stream);
  return absl::OkStatus();
}

absl::Status ThreadTable::OpenFirst(uint64_t ring) { return Open(log_->pid(), /*maker=*/0, ring); }

absl::Status ThreadTable::OnThread(int32_t maker, pid_t thread, uint64_t ring) {
  turns_.BeginSlices();
  return Open(thread, maker, ring);
}

absl::StatusOr<bool> ThreadTable::Drain() {
  const absl::StatusOr<bool> some = merger_.Drain();
  merger_.RemoveEnded();
  threads_.remove_if([this](const Thread& thread) {
    const bool exited = thread.stream.ended() && !thread.stream.left();
    if (exited) Close(thread);
    return exited;
  });
  return some;
}

absl::Status ThreadTable::Finish() {
  const absl::Status drained = merger_.DrainAll().status();
  for (Thread& thread : threads_) thread.stream.OnGone();
  CloseAll();
  return drained;
}

void ThreadTable::Leave(const std::string& reason) {
  for (Thread& thread : threads_) thread.stream.Leave(reason);
  CloseAll();
}

void ThreadTable::CloseAll() {
  merger_.Clear();
  for (const Thread& thread : threads_) Close(thread);
  threads_.clear();
}

void ThreadTable::Close(const Thread& thread) {
  turns_.Forget(&thread.stream);
  if (!thread.stream.begun()) return;
  const uint64_t count = thread.stream.count();
  ended_instructions_ += count;
  if (thread.stream.thread() == log_->pid()) first_count_ = count;
  log_->AddThread(thread.log, count, HostFeatures());
  log_->writer()->CloseThread(thread.stream.thread());
}

void ThreadTable::SkipAll() {
  for (const auto& reader : readers_) {
    if (reader != nullptr) reader->SkipAll();
  }
}

uint64_t ThreadTable::instructions() const {
  uint64_t sum = ended_instructions_;
  for (const Thread& thread : threads_) sum += thread.stream.count();
  return sum;
}

}  // namespace hindsight
