// What is known of one recorded thread without replaying it: its events, and how positions and
// counts correspond.
//
// Borrows the trace, which must outlive it. Immutable after Create: any number of host threads may
// use it at once. Movable.

#ifndef HINDSIGHT_KEYFRAMES_STATE_THREAD_STATE_H_
#define HINDSIGHT_KEYFRAMES_STATE_THREAD_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/state/order_index.h"
#include "keyframes/state/position.h"
#include "tracefmt/records.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ThreadState {
 public:
  // `thread` 0: the thread the recording starts with. kNotFound if the trace has no segment of it.
  static absl::StatusOr<ThreadState> Create(const TraceReader* trace, int32_t thread = 0);
  // The same where the events of the thread were picked out already (those of the whole process may
  // be among them), in the order of the trace. `order` is shared by all threads.
  // `trust_exit`: where the trace records the thread's end, its last segment need not be loaded.
  static absl::StatusOr<ThreadState> Create(const TraceReader* trace, int32_t thread,
                                            absl::Span<const ProcessEvent* const> events,
                                            std::shared_ptr<OrderIndex> order, bool trust_exit);

  int32_t thread() const { return thread_; }
  uint64_t begin_count() const { return begin_count_; }
  uint64_t end_count() const { return end_count_; }  // the last state that replay can reach
  // Number of the segment a state belongs to: the later one where two meet.
  // Requires: begin_count() <= count <= end_count().
  uint64_t SegmentAt(uint64_t count) const;

  // The thread made by another one: the number its first state is counted from; 0: not known, or
  // the first thread.
  uint64_t start_sequence() const { return start_sequence_; }
  int32_t creator() const { return creator_; }  // 0: not known, or the first thread
  bool exits() const { return exits_; }         // the trace records its end
  // Its name in the state `count`; empty if the trace does not say.
  std::string NameAt(uint64_t count) const;

  // The last orderable event of the thread that led to `count` or a state before it, among those
  // with a number below `sequence_limit`, and the steps since. May load segments, to find orderable
  // instructions, where the trace has such.
  Position PositionAt(uint64_t count, uint64_t sequence_limit = ~uint64_t{0}) const;
  // kOutOfRange if the thread has no such position.
  absl::StatusOr<uint64_t> CountAt(const Position& position) const;

  // The state after the system call that made `thread`, whose kThreadStart has this number.
  uint64_t CountOfBirth(int32_t thread, uint64_t start_sequence) const;

  // Its events and those of the whole process, in order of their counts.
  const std::vector<const ProcessEvent*>& events() const { return events_; }
  // The signal delivered by the transition out of the state `count`, or null.
  const ProcessEvent* SignalFrom(uint64_t count) const;
  // The exec that led to the state `count`, or null.
  const ProcessEvent* ExecTo(uint64_t count) const;
  // The system call made by the transition out of the state `count`, or null.
  const ProcessEvent* SyscallFrom(uint64_t count) const;
  // The nearest system call event whose transition starts in a state >= `count`, or < `count`; null
  // at the ends. Walk on with the event's count (>=) or count - 1 (<).
  const ProcessEvent* NextSyscall(uint64_t count) const;
  const ProcessEvent* PreviousSyscall(uint64_t count) const;

 private:
  struct Point : SequencePoint {
    bool begins = false;  // the state in which a slice or the thread begins: no event led to it
  };

  void AddEvents(absl::Span<const ProcessEvent* const> events);
  void AddPoint(const ProcessEvent& event);
  void SortPoints();
  // The last orderable instruction after `known` that led to a state at or before `count`.
  std::optional<SequencePoint> LastInstruction(const SequencePoint& known, uint64_t count,
                                               uint64_t sequence_limit) const;
  std::optional<uint64_t> InstructionAt(uint64_t sequence) const;

  const TraceReader* trace_ = nullptr;
  std::shared_ptr<OrderIndex> order_;
  int32_t thread_ = 0;
  int32_t creator_ = 0;
  uint64_t begin_count_ = 0;
  uint64_t end_count_ = 0;
  uint64_t start_sequence_ = 0;
  bool exits_ = false;
  std::vector<const ProcessEvent*> events_;
  std::vector<const ProcessEvent*> signals_;   // ascending counts
  std::vector<const ProcessEvent*> syscalls_;  // ascending counts
  std::vector<const ProcessEvent*> execs_;     // ascending counts
  std::vector<const ProcessEvent*> names_;     // ascending counts
  std::vector<Point> points_;                  // ascending numbers, never descending counts
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_THREAD_STATE_H_
