#include "recorder/translate/stream/thread_table.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {

ThreadTable::Thread::Thread(ThreadTable* table, pid_t thread, int32_t maker, uint64_t ring)
    : ring(ring),
      log(table->log_->writer(), thread, table->sequence_),
      scheduling(table->log_->pid(), thread),
      notes(&log, &scheduling),
      stream(table->process_, table, &log, &notes, maker,
             /*orderable=*/maker != 0 || table->has_maker_) {}

ThreadTable::ThreadTable(StreamedProcess* process, ProcessLog* log, Sequence* sequence,
                         const TscClock* clock, StreamMerger* merger, bool has_maker)
    : process_(process),
      log_(log),
      sequence_(sequence),
      clock_(clock),
      merger_(merger),
      has_maker_(has_maker),
      turns_(clock) {}

ThreadTable::~ThreadTable() {
  for (const Thread& thread : threads_) merger_->Remove(&thread.stream);
}

bool ThreadTable::IsFirst(const Thread& thread) const {
  return thread.stream.thread() == log_->pid();
}

absl::Status ThreadTable::Open(pid_t thread, int32_t maker, uint64_t ring) {
  threads_.emplace_back(this, thread, maker, ring);
  const absl::Status taken = TakeRing(&threads_.back());
  if (taken.ok()) {
    writers_[ring] = threads_.back().log.thread();
  } else {
    threads_.pop_back();
  }
  return taken;
}

absl::Status ThreadTable::OpenFirst(std::shared_ptr<RingSet> rings, uint64_t ring) {
  rings_ = std::move(rings);
  return Open(log_->pid(), /*maker=*/0, ring);
}

absl::Status ThreadTable::OnThread(int32_t maker, pid_t thread, uint64_t ring) {
  turns_.BeginSlices();
  const pid_t number = rings_->ThreadOf(ring);
  return Open(number > 0 ? number : thread, maker, ring);
}

void ThreadTable::Settle() {
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread& thread = *it;
    const std::optional<uint64_t> large = thread.stream.LargeSegment();
    if (large.has_value() && thread.has_ring) rings_->AskToEndSegment(thread.ring, *large);
    const bool exited = thread.stream.ended() && !thread.stream.left();
    if (exited && thread.has_ring) ReleaseRing(&thread);
    if (!exited || IsFirst(thread)) {
      ++it;  // that may execute a program after its end: by way of another thread
      continue;
    }
    Close(&thread);
    it = threads_.erase(it);
  }
}

absl::Status ThreadTable::DrainLast() {
  const auto drained = [this] {
    bool all = true;
    for (const Thread& thread : threads_) {
      merger_->NoteGone(&thread.stream);  // also if it was added just now
      all &= merger_->IsDrained(&thread.stream);
    }
    return all;
  };
  while (!drained()) RETURN_IF_ERROR(merger_->Drain().status());
  return absl::OkStatus();
}

void ThreadTable::Finish() {
  for (Thread& thread : threads_) thread.stream.OnGone();
  CloseAll();
}

absl::Status ThreadTable::OpenProgram(std::shared_ptr<RingSet> rings, uint64_t ring) {
  Settle();
  if (threads_.empty()) return absl::FailedPreconditionError("no thread can execute a program");
  Thread& first = threads_.front();
  const ThreadStream* by = &first.stream;
  for (const Thread& thread : threads_) {
    if (thread.stream.is_executing()) by = &thread.stream;
  }
  first.stream.ExpectProgram(*by);
  ReleaseRing(&first);
  // They are seen until that is logged.
  replaced_.splice(replaced_.end(), threads_, std::next(threads_.begin()), threads_.end());
  for (Thread& thread : replaced_) {
    thread.stream.FlushRun();
    ReleaseRing(&thread);
  }
  rings_ = std::move(rings);
  first.ring = ring;
  writers_ = {{ring, first.log.thread()}};
  return TakeRing(&first);
}

void ThreadTable::OnProgram() {
  for (Thread& thread : replaced_) {
    thread.stream.OnGone();
    Close(&thread);
  }
  replaced_.clear();
}

absl::Status ThreadTable::TakeRing(Thread* thread) {
  RingReader* const reader = rings_->Take(thread->ring);
  if (reader == nullptr) {
    return absl::DataLossError(absl::StrCat("there is no ring ", thread->ring));
  }
  thread->has_ring = true;
  merger_->Add(reader, &thread->stream);
  return absl::OkStatus();
}

void ThreadTable::ReleaseRing(Thread* thread) {
  merger_->Remove(&thread->stream);
  turns_.Forget(&thread->stream);
  if (std::exchange(thread->has_ring, false)) rings_->Release(thread->ring);
}

void ThreadTable::Leave(const std::string& reason) {
  for (Thread& thread : threads_) {
    if (!thread.stream.ended() || thread.stream.left()) thread.stream.Leave(reason);
  }
  CloseAll();
}

void ThreadTable::CloseAll() {
  OnProgram();
  for (Thread& thread : threads_) Close(&thread);
  threads_.clear();
}

void ThreadTable::Close(Thread* thread) {
  ReleaseRing(thread);
  if (!thread->stream.begun()) return;
  const uint64_t count = thread->stream.count();
  ended_instructions_ += count;
  if (IsFirst(*thread)) first_count_ = count;
  log_->AddThread(thread->log, count, process_->needed());
  log_->writer()->CloseThread(thread->stream.thread());
}

void ThreadTable::SkipOthers() {
  if (rings_ != nullptr) rings_->SkipOthers();
}

uint64_t ThreadTable::CountOf(pid_t thread, uint64_t count) const {
  for (const Thread& known : threads_) {
    if (known.stream.thread() == thread) return known.stream.first_count() + count;
  }
  return count;
}

uint64_t ThreadTable::SequenceOfCall(pid_t thread, uint64_t count) const {
  for (const Thread& known : threads_) {
    const ThreadStream& stream = known.stream;
    if (stream.thread() == thread && stream.count() == count) return stream.reserved_sequence();
  }
  return 0;
}

int32_t ThreadTable::ThreadOf(uint64_t ring) const {
  const auto writer = writers_.find(ring);
  return writer == writers_.end() ? 0 : writer->second;
}

bool ThreadTable::IsOnly(const ThreadStream& stream) const {
  return threads_.size() == 1 && &threads_.front().stream == &stream;
}

std::vector<TraceWriter::ThreadState> ThreadTable::StandingStates() const {
  std::vector<TraceWriter::ThreadState> states;
  for (const Thread& thread : threads_) {
    if (const auto state = thread.stream.standing()) states.push_back(*state);
  }
  return states;
}

uint64_t ThreadTable::NsSince(uint64_t time) const {
  const uint64_t now = clock_->NsAt(ReadTsc()), then = clock_->NsAt(time);
  return now > then ? now - then : 0;
}

uint64_t ThreadTable::instructions() const {
  uint64_t sum = ended_instructions_;
  for (const Thread& thread : threads_) sum += thread.stream.count();
  return sum;
}

}  // namespace hindsight
