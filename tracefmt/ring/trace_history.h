// What a trace of a ring has on disk, and how its oldest part goes.
//
// The trace of a reader begins where its file `events` says (the event kTrimmed): the new one
// appears there by one rename, and only then the files go that nothing refers to any more. So the
// trace opens at every instant, whoever is killed.
//
// In a ring by threads each has a beginning of its own. The trace then begins where the first of
// them does, and is whole from a later full keyframe on; those before lose their pages.
//
// Not copyable. Used on the write queue, but for TakeGone: any thread, and Records and the like:
// once the queue is drained.

#ifndef HINDSIGHT_TRACEFMT_RING_TRACE_HISTORY_H_
#define HINDSIGHT_TRACEFMT_RING_TRACE_HISTORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tracefmt/modules/module_list_output.h"
#include "tracefmt/records.h"
#include "tracefmt/ring/ring.h"
#include "tracefmt/storage/output_directory.h"

namespace hindsight {

// A full keyframe, as a place where a trace may begin.
struct KeyframeMark {
  uint64_t number = 0;
  bool self_contained = false;  // refers to no earlier one
  bool may_begin = true;        // else the trace must not begin here
  uint64_t bytes = 0;           // of its file
  // The threads it has, and the segments that begin there.
  std::vector<std::pair<int32_t, uint64_t>> segments;
  std::vector<ProcessEvent> carried;  // EventSummary
  // Of those starts the ones of threads whose last orderable event was an instruction.
  std::vector<ProcessEvent> instructions;
  uint64_t execs = 0;  // so far
  std::string program;
  bool others_write = false;
  uint64_t events_before = 0;  // events of the trace before its own
  uint64_t events_offset = 0;  // of the block that begins with its event, ever since the first one
  uint64_t time_ns = 0;        // Ring::NowNs
};

class TraceHistory final : public RingMember {
 public:
  // Drops the blocks of `events` before `offset`, and has it begin with `beginning`.
  using DropEvents =
      std::function<absl::Status(uint64_t offset, const std::vector<ProcessEvent>& beginning)>;

  using EventBytes = std::function<uint64_t()>;  // of the file
  // Makes a full keyframe's file without pages, which readers take where the other is not there,
  // and says its size.
  using WriteHead = std::function<absl::StatusOr<uint64_t>(uint64_t number)>;

  // Of the trace in `directory`, which is called `name` in `above`. `bytes_on_disk` and `ring` are
  // borrowed.
  TraceHistory(const OutputDirectory& directory, const OutputDirectory& above, std::string name,
               Ring* ring, std::atomic<uint64_t>* bytes_on_disk,
               std::shared_ptr<ModuleListOutput> modules, DropEvents drop_events,
               EventBytes event_bytes, WriteHead write_head)
      : directory_(directory),
        above_(above),
        name_(std::move(name)),
        ring_(ring),
        bytes_on_disk_(bytes_on_disk),
        modules_(std::move(modules)),
        drop_events_(std::move(drop_events)),
        event_bytes_(std::move(event_bytes)),
        write_head_(std::move(write_head)) {}
  TraceHistory(const TraceHistory&) = delete;
  TraceHistory& operator=(const TraceHistory&) = delete;

  // Makes the thread's directory if there is none.
  absl::Status BeginSegment(int32_t thread, uint64_t number);
  // To its newest segment.
  void AddRecords(int32_t thread, uint64_t records, uint64_t bytes);
  void AddKeyframe(KeyframeMark mark);
  // The process has ended. `remove`: its trace may go as a whole, which calls this.
  void End(std::function<absl::Status()> remove) {
    end_ns_ = ring_->NowNs();
    event_bytes_at_end_ = event_bytes_();  // whoever is asked need not live on
    remove_ = std::move(remove);
  }

  // Removes the whole trace, which then is not part of the recording any more.
  absl::Status RemoveAll();

  size_t keyframes() const override { return marks_.size(); }
  std::optional<uint64_t> OldestEnd() const override;
  absl::Status DropOldest() override;
  uint64_t LargestShare() const override;
  absl::Status DropFromLargest() override;
  bool ended() const override { return remove_ != nullptr; }
  uint64_t BytesToDrop() const override { return remove_ ? 0 : event_bytes_() + modules_->bytes(); }

  // What is left.
  uint64_t SegmentsOf(int32_t thread) const;
  uint64_t RecordsOf(int32_t thread) const;
  uint64_t dropped_events() const { return dropped_events_; }  // less those added instead
  // Threads of which nothing is left since this was last called.
  std::vector<int32_t> TakeGone();

 private:
  struct KeptSegment {
    uint64_t number = 0;
    uint64_t records = 0, bytes = 0;
    uint64_t mark = 0;  // the newest full keyframe when it began
  };
  struct Thread {
    std::deque<KeptSegment> segments;  // empty: the thread has ended, and only its events are left
    uint64_t bytes = 0;                // of those
    uint64_t next_number = 0, last_mark = 0;
    uint64_t from = 0;  // the full keyframe at which its part begins
  };
  struct KeyframeFile {
    uint64_t number = 0;
    bool self_contained = false;
    uint64_t page_bytes = 0;  // with its pages; 0: it has lost them
    uint64_t head_bytes = 0;  // without; 0: there is none
  };
  // What can be done without, in bytes.
  struct Shares {
    std::map<int32_t, uint64_t> living;
    uint64_t ended = 0;   // threads that have
    uint64_t pages = 0;   // of full keyframes
    uint64_t common = 0;  // events, and what full keyframes have besides
    uint64_t Largest() const;
  };

  size_t NextBeginning(size_t after) const;
  const KeyframeMark* NewestBeginning() const;
  const KeyframeMark* MarkOf(uint64_t number) const;
  uint64_t FirstFileFor(uint64_t keyframe) const;
  bool HasEnded(int32_t thread, const Thread& part) const;
  ProcessEvent Trimmed() const;
  std::vector<ProcessEvent> Beginning() const;
  size_t SegmentsBefore(int32_t thread, const Thread& part, const KeyframeMark& first) const;
  size_t SegmentsToDrop(int32_t thread, const Thread& part) const;
  Shares SharesNow() const;
  void Advance(int32_t thread, Thread* part);
  void AdvanceEnded();
  void AdvanceWhole();
  void AdvanceAll(uint64_t keyframe);
  uint64_t OldestNeeded() const;
  absl::Status Commit();
  absl::Status DropSegments();
  absl::Status DropKeyframes();
  absl::Status Delete(const std::string& name);

  const OutputDirectory directory_, above_;
  const std::string name_;
  Ring* const ring_;
  std::atomic<uint64_t>* const bytes_on_disk_;
  const std::shared_ptr<ModuleListOutput> modules_;
  const DropEvents drop_events_;
  const EventBytes event_bytes_;
  const WriteHead write_head_;
  std::deque<KeyframeMark> marks_;  // ascending
  std::deque<KeyframeFile> files_;  // likewise; also such as have only pages for later ones
  uint64_t whole_ = 0;              // the full keyframe from which on all is there
  std::map<int32_t, Thread> threads_;
  uint64_t dropped_segments_ = 0, dropped_keyframes_ = 0, dropped_events_ = 0, newest_ = 0;
  std::optional<uint64_t> end_ns_;
  uint64_t event_bytes_at_end_ = 0;
  std::function<absl::Status()> remove_;
  std::mutex mutex_;
  std::vector<int32_t> gone_;  // guarded by mutex_
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RING_TRACE_HISTORY_H_
