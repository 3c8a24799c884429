// What one recorded thread writes into the trace: its segments, and the process events.
//
// Sequence numbers. Orderable events of all threads are numbered in the order in which they
// happened. Either this log takes the next number from the recording's Sequence when an event is
// logged: right for an engine whose threads take turns. Or the engine has numbered the event
// itself, as one must whose threads run at the same time and are ordered later, by time
// stamps, and passes the number: the calls with an argument `sequence`. Such an engine needs no
// Sequence.
//
// Errors. The writer's first error is kept, and from then on nothing is written, so that the trace
// stays in order. Logging itself never fails; the engine checks status() once a turn. Keep() adds
// an error of the thread's own that must also end the recording.
//
// Borrows writer and sequence. Not copyable. One host thread at a time; logs of different threads
// of a recording that have no Sequence may be used at the same time, as SegmentWriters may.

#ifndef HINDSIGHT_RECORDER_LOG_THREAD_LOG_H_
#define HINDSIGHT_RECORDER_LOG_THREAD_LOG_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// The numbers of a recording's orderable events, given out in the order in which they happen.
struct Sequence {
  uint64_t last = 0;
  uint64_t unused = 0;  // of those given out: reserved and not used, or not yet

  uint64_t events() const { return last - unused; }
};

class ThreadLog {
 public:
  // `sequence`, of the whole recording, may be null: then all numbers are given.
  ThreadLog(TraceWriter* writer, int32_t thread, Sequence* sequence)
      : writer_(writer),
        segment_writer_(writer->Segments(thread)),
        thread_(thread),
        sequence_(sequence) {}
  ThreadLog(const ThreadLog&) = delete;
  ThreadLog& operator=(const ThreadLog&) = delete;

  int32_t thread() const { return thread_; }
  const absl::Status& status() const { return status_; }
  void Keep(absl::Status status) { status_.Update(std::move(status)); }

  // The number of the last orderable event of any thread.
  uint64_t sequence() const { return sequence_->last; }
  // The number of an event of the kernel's (a system call, a signal, a slice) that is logged next.
  uint64_t NextSequence() { return NoteSequence(++sequence_->last); }
  // The number of an event of the kernel's that is logged later, after events with higher ones, or
  // not at all: then no event has it.
  uint64_t ReserveSequence() {
    ++sequence_->unused;
    return ++sequence_->last;
  }
  uint64_t UseReserved(uint64_t sequence) {
    --sequence_->unused;
    return NoteSequence(sequence);
  }
  // The same where it is given.
  uint64_t NoteSequence(uint64_t sequence) {
    ++kernel_events_;
    return sequence;
  }

  // The number of an orderable instruction, which is logged by the next OrderRun.
  uint64_t NextInstruction() { return ++sequence_->last; }

  // Orderable instructions, executed from the states `counts`, all before state `count`. They have
  // the numbers from `first_sequence` on.
  void OrderRun(uint64_t count, uint64_t first_sequence, absl::Span<const uint64_t> counts) {
    Append(count, hindsight::OrderRun{first_sequence, counts});
    ordered_instructions_ += counts.size();
  }
  void OrderRun(uint64_t count, absl::Span<const uint64_t> counts) {
    OrderRun(count, sequence_->last + 1, counts);
    sequence_->last += counts.size();
  }

  // `sequence`: the last orderable event of any thread before the segment.
  void BeginSegment(uint64_t count, uint64_t sequence, const RegisterFile& registers) {
    const uint64_t number = segments_++;
    if (!status_.ok()) return;
    Keep(segment_writer_->Begin(number, count, sequence, ToWords(registers)));
  }
  void BeginSegment(uint64_t count, const RegisterFile& registers) {
    BeginSegment(count, sequence(), registers);
  }
  void EndSegment(uint64_t count, const RegisterFile& registers) {
    Append(count, SegmentEnd{ToWords(registers)});
  }
  // It should end soon (SegmentWriter::IsLarge).
  bool IsSegmentLarge() const { return segment_writer_->IsLarge(); }
  void Append(uint64_t count, RecordBody body) {
    if (status_.ok()) Keep(segment_writer_->Append(Record{count, std::move(body)}));
  }
  // Fills in the thread.
  void Event(ProcessEvent event) {
    event.thread = thread_;
    if (status_.ok()) Keep(writer_->AppendEvent(std::move(event)));
  }

  // So far: numbered events of the kernel's, orderable instructions, segments begun.
  uint64_t kernel_events() const { return kernel_events_; }
  uint64_t ordered_instructions() const { return ordered_instructions_; }
  uint64_t segments() const { return segments_; }

 private:
  TraceWriter* const writer_;
  SegmentWriter* const segment_writer_;
  const int32_t thread_;
  Sequence* const sequence_;
  absl::Status status_;
  uint64_t kernel_events_ = 0;
  uint64_t ordered_instructions_ = 0;
  uint64_t segments_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_THREAD_LOG_H_
