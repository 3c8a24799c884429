// Writes a trace directory so that it is readable at every instant, also after kill -9.
//
// Not copyable, not movable. It may compress and write on a thread of its own. An I/O error (disk
// full) is sticky: it is returned by the next call and what is written before it stays usable.
//
// Threads. A recorder with one host thread calls everything from there. One with several:
//
//   SegmentWriter          one host thread at a time for each; several of them at the same time
//   Segments, AppendEvent  any host thread, at any time
//   Flush, bytes_written   any host thread, at any time. Flush covers what was appended before
//   the rest               one host thread at a time, for all traces of a recording together
//   Finish, destructor     nobody else calls
//
// What one host thread appends, events and records, is on disk in the order in which it appended
// it. Between host threads only the order of calls that happen one after the other is kept.

#ifndef HINDSIGHT_TRACEFMT_TRACE_WRITER_H_
#define HINDSIGHT_TRACEFMT_TRACE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tracefmt/kernel_state.h"
#include "tracefmt/manifest.h"
#include "tracefmt/records.h"
#include "tracefmt/ring/ring_limits.h"
#include "tracefmt/storage/write_queue.h"

namespace hindsight {

struct ModuleContents;

// The segments of one recorded thread.
//
//   (closed) --Begin--> (open) --Append--> (open) --Append SegmentEnd or Gap--> (closed)
//
// Handed out by TraceWriter::Segments, which owns it. Not copyable. See there for host threads.
class SegmentWriter {
 public:
  virtual ~SegmentWriter() = default;

  // Starts segment `number` (from 0, consecutive) at state `count`. `sequence` is the number of the
  // last orderable event before it. Requires: the segment before it has got its SegmentEnd or Gap.
  virtual absl::Status Begin(uint64_t number, uint64_t count, uint64_t sequence,
                             const RegisterWords& registers) = 0;
  // Appends to the open segment. Spans in `record` are copied.
  virtual absl::Status Append(const Record& record) = 0;
  // Whether the open segment has so much by now that it should end soon: readers, which load it as
  // a whole, do not take one of a multiple of that.
  virtual bool IsLarge() const { return false; }
  // Frees what is kept for the thread, which has ended. Its next segment, if there ever is one, has
  // the next number.
  virtual void Close() {}
};

class TraceWriter {
 public:
  // Creates the directory `path`, which must not exist or be empty, with a manifest in state
  // kRecording and a lock that shows readers the recorder is alive. Only this user can read what is
  // written; kPermissionDenied if the directory is another user's or lies where others may replace
  // it (output_directory.h).
  // `ring`: how much of its newest part the recording keeps, all its traces together; by default
  // all. What goes is the part of a trace before a full keyframe (tracefmt/ring/ring.h).
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path,
                                                             const Manifest& manifest,
                                                             const WriterOptions& options = {},
                                                             const RingLimits& ring = {});
  virtual ~TraceWriter() = default;

  // A trace for a child process inside this recording: DIRECTORY/processes/PID, PID-2, ... of the
  // recording's root, whichever is free. Modules are shared: bytes that any trace of the recording
  // has stored are not stored again. Independent of this writer, which may be finished, but for
  // that and for I/O errors, which stop the whole recording; fills in the manifest's
  // parent_directory (from this writer, if there is a parent_pid) and, if empty, uuid.
  virtual absl::StatusOr<std::unique_ptr<TraceWriter>> CreateChild(const Manifest& manifest) {
    return absl::UnimplementedError("CreateChild");
  }

  // Stores the file at `path` (read through `fd` if >= 0) unless its bytes are there already, and
  // returns its module index. Files above `max_bytes` are listed but not stored. The bytes are
  // those that it has now; they are on disk before all that is appended or begun later.
  virtual absl::StatusOr<int32_t> AddModule(const std::string& path, int fd,
                                            uint64_t max_bytes) = 0;

  // What has been stored, or listed, as module `module`. Null: there is none, or it is not known.
  virtual std::shared_ptr<const ModuleContents> ContentsOf(int32_t module) const { return nullptr; }

  // Files of these modules are not mapped any more: nothing that is appended or begun from now on
  // refers to them. In a ring they go with the last part of the trace that does. AddModule of such
  // a file gives it another index. Requires: no full keyframe is begun.
  virtual absl::Status ReleaseModules(absl::Span<const int32_t> modules) {
    return absl::OkStatus();
  }

  // The segments of `thread`: always the same one, which lives as long as this.
  virtual SegmentWriter* Segments(int32_t thread) = 0;
  // Is on disk before every record that the same host thread appends after it.
  virtual absl::Status AppendEvent(ProcessEvent event) = 0;

  // Short for calls of Segments(thread).
  absl::Status BeginSegment(int32_t thread, uint64_t number, uint64_t count, uint64_t sequence,
                            const RegisterWords& registers) {
    return Segments(thread)->Begin(number, count, sequence, registers);
  }
  absl::Status Append(int32_t thread, const Record& record) {
    return Segments(thread)->Append(record);
  }
  void CloseThread(int32_t thread) { Segments(thread)->Close(); }

  // A full keyframe: Begin, any number of AddPage in ascending address order, Finish. Page bytes
  // (kPageBytes) held by an earlier keyframe, all zero, or equal to module bytes are stored by
  // reference. The keyframe exists for readers once Finish returned. Number from 1, consecutive.
  struct ThreadState {
    int32_t thread = 0;
    uint64_t count = 0;
    uint64_t segment = 0;  // the segment that starts in this state
    RegisterWords registers;
  };
  virtual absl::Status BeginFullKeyframe(uint64_t number, uint64_t sequence,
                                         const std::vector<ThreadState>& threads,
                                         const std::vector<MapRegion>& maps,
                                         absl::Span<const uint64_t> auxv) = 0;
  virtual absl::Status AddPage(uint64_t address, absl::Span<const uint8_t> bytes) = 0;
  virtual absl::Status AddModulePage(uint64_t address, int32_t module, uint64_t offset) = 0;
  // From now on the page table of the last full keyframe is kept, for the next two.
  virtual void KeepPageTable() {}
  // Whether the keyframe before this one is known to have the page. Addresses ascend as of AddPage.
  virtual bool HadPage(uint64_t address) { return false; }
  // Adds the page, which has the bytes that it had in the keyframe before. Requires: HadPage.
  virtual absl::Status AddUnchangedPage(uint64_t address) {
    return absl::UnimplementedError("AddUnchangedPage");
  }
  // Between Begin and Finish: every page of private memory that holds anything has been or will be
  // added, so that one that is not was never written; but for those in the ranges `unseen` (first
  // and end address).
  virtual absl::Status DeclareComplete(
      const std::vector<std::pair<uint64_t, uint64_t>>& unseen) = 0;
  // Between Begin and Finish, at most once: what the kernel keeps of the process.
  virtual absl::Status AddKernelState(const KernelState& state) = 0;
  // The keyframe is on disk before all that is appended after it, which may be later than this
  // returns.
  virtual absl::Status FinishFullKeyframe() = 0;
  // Waits until what was appended before the last FinishFullKeyframe is on disk, and it as well.
  virtual absl::Status AwaitFullKeyframe() = 0;

  // Whether the trace is one of a ring, so that a full keyframe must be whole: it may become the
  // first one. Any host thread.
  virtual bool has_ring() const { return false; }
  // Whether a full keyframe is due, for older parts to be dropped. Any host thread.
  virtual bool WantsFullKeyframe() const { return false; }

  // Hands everything appended so far to the kernel (survives kill -9 of this process).
  virtual absl::Status Flush() = 0;
  // Flush, then the manifest with `state` and what is known at the end. Where something could not
  // be written (and in the destructor, if Finish was not called): the manifest says so in
  // end_reason and readers find the trace kInterrupted. The totals of a complete trace are the
  // writer's own count. No calls after it but CreateChild and bytes_written.
  virtual absl::Status Finish(const Manifest& manifest) = 0;

  // Bytes on disk, of the whole recording, modules included.
  virtual uint64_t bytes_written() const = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_TRACE_WRITER_H_
