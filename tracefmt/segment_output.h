// The SegmentWriter of a trace on disk: gathers records into blocks and hands them to the write
// queue.
//
// A lock of its own makes Flush of the trace safe while the thread's recorder appends; nobody else
// waits for it. Locks are taken in this order: of the list of segments, of a segment, of the
// events, of the queue.

#ifndef HINDSIGHT_TRACEFMT_SEGMENT_OUTPUT_H_
#define HINDSIGHT_TRACEFMT_SEGMENT_OUTPUT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "tracefmt/manifest.h"
#include "tracefmt/record_columns.h"
#include "tracefmt/recording_output.h"
#include "tracefmt/references/reference_choice.h"
#include "tracefmt/ring/event_summary.h"
#include "tracefmt/ring/trace_history.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class SegmentOutput final : public SegmentWriter {
 public:
  // Of thread `thread` of the trace in `directory` with this uuid. `output` is borrowed.
  // `post_events` puts the events of the trace that wait on the queue; called before records are.
  // `history`: of a ring, else null.
  SegmentOutput(int32_t thread, const OutputDirectory& directory, std::string uuid,
                RecordingOutput* output, std::function<absl::Status()> post_events,
                TraceHistory* history = nullptr)
      : thread_(thread),
        directory_(directory),
        uuid_(std::move(uuid)),
        output_(output),
        history_(history),
        post_events_(std::move(post_events)) {}
  SegmentOutput(const SegmentOutput&) = delete;
  SegmentOutput& operator=(const SegmentOutput&) = delete;

  absl::Status Begin(uint64_t number, uint64_t count, uint64_t sequence,
                     const RegisterWords& registers) override;
  absl::Status Append(const Record& record) override;
  bool IsLarge() const override { return large_.load(std::memory_order_relaxed); }
  void Close() override;

  // Puts on the queue what has been appended. Any host thread.
  absl::Status Post();
  // Segments of 0: the thread has none. Any host thread.
  ThreadTotals totals() const;
  // Where the last orderable instruction was; its number is 0 if there was none.
  OrderedPoint last_instruction() const;
  // No segment is open, and none will be unless it is handed out again.
  bool closed() const;
  void Reopen();

 private:
  absl::Status AppendRecord(const Record& record);
  absl::Status AppendRun(const Record& record);
  absl::Status AppendUsed(const Record& record);
  absl::Status PostRecords();

  const int32_t thread_;
  const OutputDirectory directory_;
  const std::string uuid_;
  RecordingOutput* const output_;
  TraceHistory* const history_;
  const std::function<absl::Status()> post_events_;

  std::atomic<bool> large_ = false;
  mutable std::mutex mutex_;  // guards all below
  bool open_ = false, closed_ = false;
  OrderedPoint last_instruction_;
  uint64_t next_number_ = 0;
  ThreadTotals totals_;
  uint64_t records_ = 0;                               // of the segment, before `columns_`
  uint64_t raw_bytes_ = 0;                             // of those, about
  uint64_t ordered_counts_ = 0;                        // in those
  uint64_t used_pages_ = 0;                            // likewise
  std::shared_ptr<std::unique_ptr<AppendFile>> file_;  // made on the queue
  std::unique_ptr<RecordColumns> columns_;
  ReferenceChoice references_;  // not of a ring, which drops what others would refer to
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SEGMENT_OUTPUT_H_
