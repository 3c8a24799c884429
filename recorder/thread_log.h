// What one recorded thread writes into the trace: its segments, and the process events.
//
// Keeps the first error of the writer and drops everything after it, so that the many places that
// log need not each fail: the engine looks at status() between runs. Borrows the writer. Not
// copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_THREAD_LOG_H_
#define HINDSIGHT_RECORDER_THREAD_LOG_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "emulator/registers.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class ThreadLog {
 public:
  ThreadLog(TraceWriter* writer, int32_t thread) : writer_(writer), thread_(thread) {}
  ThreadLog(const ThreadLog&) = delete;
  ThreadLog& operator=(const ThreadLog&) = delete;

  int32_t thread() const { return thread_; }
  const absl::Status& status() const { return status_; }
  // The last orderable event's number.
  uint64_t sequence() const { return sequence_; }
  uint64_t NextSequence() { return ++sequence_; }
  // Segments begun.
  uint64_t segments() const { return segments_; }

  void BeginSegment(uint64_t count, const RegisterFile& registers) {
    Keep(writer_->BeginSegment(thread_, segments_++, count, sequence_, ToWords(registers)));
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
  absl::Status status_;
  uint64_t sequence_ = 0;
  uint64_t segments_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_THREAD_LOG_H_
