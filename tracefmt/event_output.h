// The events of a trace on their way to its file: gathers them into blocks and hands those to the
// write queue.
//
// Any host thread may call anything but Create. A block is posted under the lock: who posts after
// another, even nothing, finds on the queue what the other took. Not copyable, not movable.

#ifndef HINDSIGHT_TRACEFMT_EVENT_OUTPUT_H_
#define HINDSIGHT_TRACEFMT_EVENT_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/recording_output.h"
#include "tracefmt/records.h"
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

  absl::Status Append(const ProcessEvent& event);
  // Puts on the queue what has been appended.
  absl::Status Post();
  // Events appended.
  uint64_t count() const;

 private:
  absl::Status PostLocked();

  RecordingOutput* const output_;
  std::unique_ptr<AppendFile> file_;  // used on the queue

  mutable std::mutex mutex_;  // guards all below
  std::vector<ProcessEvent> waiting_;
  size_t waiting_bytes_ = 0;  // about what they take in a message
  uint64_t count_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_EVENT_OUTPUT_H_
