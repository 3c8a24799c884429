// What one recorded thread writes into the trace: its segments, and the process events.
//
// Keeps the first error of the writer and drops everything after it, so that the many places that
// log need not each fail: the engine looks at status() between runs. Borrows the writer. Not
// copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_LOG_THREAD_LOG_H_
#define HINDSIGHT_RECORDER_LOG_THREAD_LOG_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "isa/registers.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// The numbers of a recording's orderable events, given out in the order in which they happen.
struct Sequence {
  uint64_t last = 0;
};

class ThreadLog {
 public:
  // `sequence`, of the whole recording, is borrowed.
  ThreadLog(TraceWriter* writer, int32_t thread, Sequence* sequence)
      : writer_(writer), thread_(thread), sequence_(sequence) {}
  ThreadLog(const ThreadLog&) = delete;
  ThreadLog& operator=(const ThreadLog&) = delete;

  int32_t thread() const { return thread_; }
  const absl::Status& status() const { return status_; }
  // The number of the last orderable event of any thread.
  uint64_t sequence() const { return sequence_->last; }
  uint64_t NextSequence() {
    ++kernel_events_;
    return ++sequence_->last;
  }
  // Orderable instructions, executed from the states `counts`, all before state `count`.
  void OrderRun(uint64_t count, absl::Span<const uint64_t> counts) {
    Append(count, hindsight::OrderRun{sequence_->last + 1, counts});
    sequence_->last += counts.size();
    ordered_instructions_ += counts.size();
  }
  uint64_t kernel_events() const { return kernel_events_; }
  uint64_t ordered_instructions() const { return ordered_instructions_; }
  // Segments begun.
  uint64_t segments() const { return segments_; }

  void BeginSegment(uint64_t count, const RegisterFile& registers) {
    Keep(writer_->BeginSegment(thread_, segments_++, count, sequence(), ToWords(registers)));
  }
  void EndSegment(uint64_t count, const RegisterFile& registers) {
    Append(count, SegmentEnd{ToWords(registers)});
  }
  void Append(uint64_t count, RecordBody body) {
    if (status_.ok()) Keep(writer_->Append(thread_, Record{count, std::move(body)}));
  }
  // Fills in the thread.
  void Event(ProcessEvent event) {
    event.thread = thread_;
    if (status_.ok()) Keep(writer_->AppendEvent(event));
  }
  void Keep(absl::Status status) { status_.Update(std::move(status)); }

 private:
  TraceWriter* const writer_;
  const int32_t thread_;
  Sequence* const sequence_;
  absl::Status status_;
  uint64_t kernel_events_ = 0;
  uint64_t ordered_instructions_ = 0;
  uint64_t segments_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_THREAD_LOG_H_
