// What a trace of a ring has on disk, and how its oldest part goes.
//
// The trace of a reader begins where its file `events` says (the event kTrimmed): the new one
// appears there by one rename, and only then the files go that nothing refers to any more. So the
// trace opens at every instant, whoever is killed.
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
  // The threads it has, and the segments that begin there.
  std::vector<std::pair<int32_t, uint64_t>> segments;
  std::vector<ProcessEvent> carried;  // EventSummary
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

  // Of the trace in `directory`, which is called `name` in `above`. `bytes_on_disk` and `ring` are
  // borrowed.
  TraceHistory(const OutputDirectory& directory, const OutputDirectory& above, std::string name,
               Ring* ring, std::atomic<uint64_t>* bytes_on_disk,
               std::shared_ptr<ModuleListOutput> modules, DropEvents drop_events,
               EventBytes event_bytes)
      : directory_(directory),
        above_(above),
        name_(std::move(name)),
        ring_(ring),
        bytes_on_disk_(bytes_on_disk),
        modules_(std::move(modules)),
        drop_events_(std::move(drop_events)),
        event_bytes_(std::move(event_bytes)) {}
  TraceHistory(const TraceHistory&) = delete;
  TraceHistory& operator=(const TraceHistory&) = delete;

  // Makes the thread's directory if there is none.
  absl::Status BeginSegment(int32_t thread, uint64_t number);
  void AddRecords(int32_t thread, uint64_t records);
  void AddKeyframe(KeyframeMark mark);
  // The process has ended. `remove`: its trace may go as a whole, which calls this.
  void End(std::function<absl::Status()> remove) {
    end_ns_ = ring_->NowNs();
    remove_ = std::move(remove);
  }

  // Removes the whole trace, which then is not part of the recording any more.
  absl::Status RemoveAll();

  size_t keyframes() const override { return marks_.size(); }
  std::optional<uint64_t> OldestEnd() const override;
  absl::Status DropOldest() override;
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
    uint64_t records = 0;
    uint64_t mark = 0;  // the newest full keyframe when it began
  };

  size_t NextBeginning() const;
  ProcessEvent Trimmed(const KeyframeMark& first) const;
  // How many of a thread's segments lie before `first`.
  size_t SegmentsBefore(int32_t thread, const std::deque<KeptSegment>& segments,
                        const KeyframeMark& first) const;
  absl::Status Delete(const std::string& name);

  const OutputDirectory directory_, above_;
  const std::string name_;
  Ring* const ring_;
  std::atomic<uint64_t>* const bytes_on_disk_;
  const std::shared_ptr<ModuleListOutput> modules_;
  const DropEvents drop_events_;
  const EventBytes event_bytes_;
  std::deque<KeyframeMark> marks_;
  std::deque<std::pair<uint64_t, bool>> files_;  // full keyframes on disk; self-contained
  std::map<int32_t, std::deque<KeptSegment>> segments_;
  uint64_t dropped_segments_ = 0, dropped_keyframes_ = 0, dropped_events_ = 0, newest_ = 0;
  std::optional<uint64_t> end_ns_;
  std::function<absl::Status()> remove_;
  std::mutex mutex_;
  std::vector<int32_t> gone_;  // guarded by mutex_
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RING_TRACE_HISTORY_H_
