// The events of a trace on their way to its file: gathers them into blocks and hands those to the
// write queue.
//
// Any host thread may call anything but Create. A block is posted under the lock: who posts after
// another, even nothing, finds on the queue what the other took. Not copyable, not movable.

#ifndef HINDSIGHT_TRACEFMT_EVENT_OUTPUT_H_
#define HINDSIGHT_TRACEFMT_EVENT_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tracefmt/recording_output.h"
#include "tracefmt/records.h"
#include "tracefmt/ring/event_summary.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/output_directory.h"

namespace hindsight {

class EventOutput {
 public:
  // `output` is borrowed. The queue must be drained before this ends: its jobs use this.
  explicit EventOutput(RecordingOutput* output) : output_(output) {}
  EventOutput(const EventOutput&) = delete;
  EventOutput& operator=(const EventOutput&) = delete;

  // Makes the file in the trace's `directory`. On the queue, once, before anything is posted.
  absl::Status Create(const OutputDirectory& directory);

  absl::Status Append(ProcessEvent event);
  // The same for an event at which the trace may begin later: it is the first one of a block. Calls
  // `mark` with the events so far, without it, and posts the job that this returns, which gets the
  // offset of that block, as if nothing had ever been dropped.
  using MarkJob = std::function<void(uint64_t offset)>;
  absl::Status AppendMark(
      const ProcessEvent& event,
      const std::function<MarkJob(const EventSummary& summary, uint64_t events)>& mark);
  // On the queue: the blocks before such an offset go, and the file begins with `beginning`.
  absl::Status DropBefore(uint64_t offset, const std::vector<ProcessEvent>& beginning);
  // Nothing that is kept refers to these modules from the next AppendMark on.
  void ForgetModules(absl::Span<const int32_t> modules);
  // Puts on the queue what has been appended.
  absl::Status Post();
  // On the queue: of the file.
  uint64_t bytes() const { return file_->size(); }
  // Events appended.
  uint64_t count() const;

 private:
  absl::Status AppendLocked(ProcessEvent event);
  absl::Status PostLocked();

  RecordingOutput* const output_;
  std::unique_ptr<AppendFile> file_;  // used on the queue
  uint64_t dropped_bytes_ = 0;        // likewise; less those of what the file begins with instead

  mutable std::mutex mutex_;  // guards all below
  std::vector<ProcessEvent> waiting_;
  size_t waiting_bytes_ = 0;  // about what they take in a message
  uint64_t count_ = 0;
  EventSummary summary_;  // of a ring
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_EVENT_OUTPUT_H_
