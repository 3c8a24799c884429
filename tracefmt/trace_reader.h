// Reads a trace directory: finished, interrupted, or still being written.
//
// Everything returned is immutable. A TraceReader may be used by several threads at once and must
// outlive what it returned. Errors name the file and the byte offset. Damage costs only what lies
// after it in the same file; warnings() says what was dropped.

#ifndef HINDSIGHT_TRACEFMT_TRACE_READER_H_
#define HINDSIGHT_TRACEFMT_TRACE_READER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tracefmt/kernel_state.h"
#include "tracefmt/manifest.h"
#include "tracefmt/records.h"
#include "tracefmt/ring/trimmed_event.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {

// What is known of a segment without reading its records.
struct SegmentInfo {
  int32_t thread = 0;
  uint64_t number = 0;
  uint64_t first_count = 0;     // the state it starts in
  uint64_t first_sequence = 0;  // orderable events before it
  uint64_t file_bytes = 0;
  std::optional<uint64_t> reference;  // number of its reference segment
  // Other threads ran meanwhile of which the trace does not have what they did.
  bool thinned = false;
  std::string path;  // for messages
};

// One segment, decoded. Spans in its records point into it.
class Segment {
 public:
  virtual ~Segment() = default;
  virtual const SegmentInfo& info() const = 0;
  virtual const RegisterWords& registers() const = 0;  // at first_count
  // With a PageImport for each page used of a MappedRange (ranges/range_expansion.h), and one in
  // place of each ReferencedPage (references/referenced_pages.h).
  virtual const std::vector<Record>& records() const = 0;
  // Of a page that is used where the first `applied` records lead to, though none has brought it:
  // if a MappedRange has it all the same (ranges/range_expansion.h). Mostly nothing.
  virtual std::optional<PageImport> ImportOfUnlisted(size_t applied, uint64_t page) const {
    return std::nullopt;
  }
  // How many the file has, as far as it is not damaged: of unknown kinds too, but without the
  // imports that were made for mapped ranges.
  virtual uint64_t stored_records() const { return records().size(); }
  // The last state that can be reached: the count of the SegmentEnd, or, where the segment was cut
  // short, the state after its last whole transition or orderable instruction, or RegisterHash.
  virtual uint64_t end_count() const = 0;
  // Registers at end_count(), if the segment was ended properly.
  virtual const RegisterWords* end_registers() const = 0;
  // Set where bytes of the file were damaged and dropped.
  virtual const absl::Status& damage() const = 0;
  // What it takes of memory, about.
  virtual uint64_t memory_bytes() const = 0;
};

class FullKeyframe {
 public:
  struct ThreadState {
    int32_t thread = 0;
    uint64_t count = 0;
    uint64_t segment = 0;
    RegisterWords registers;
  };
  virtual ~FullKeyframe() = default;
  virtual uint64_t number() const = 0;
  virtual uint64_t sequence() const = 0;
  virtual const std::vector<ThreadState>& threads() const = 0;
  virtual const std::vector<MapRegion>& maps() const = 0;
  // Type, value, ... as the program saw it: another one after each exec. May be empty.
  virtual const std::vector<uint64_t>& auxv() const = 0;
  // What the kernel kept of the process; null: that is not in the trace.
  virtual const KernelState* kernel_state() const = 0;
  virtual uint64_t page_count() const = 0;
  virtual uint64_t file_bytes() const = 0;
  // Addresses of all pages it holds, ascending.
  virtual absl::Span<const uint64_t> page_addresses() const = 0;
  // Reads all of the keyframe's own file, not those it refers to. Names what is damaged.
  virtual absl::Status CheckFile() const = 0;
  // Whether it saw all there was of private memory at `address`: then a page of it that the
  // keyframe does not hold had never been written.
  virtual bool SawAllAt(uint64_t address) const = 0;
  // Fills `out` (kPageBytes). kNotFound if the keyframe does not hold the page.
  virtual absl::Status ReadPage(uint64_t address, absl::Span<uint8_t> out) const = 0;
};

// One process of a recording, as known without opening its trace.
struct ProcessInfo {
  std::string directory;  // of its trace: the recording's own, or DIRECTORY/processes/NAME
  Manifest manifest;
  TraceDirectory files;  // the same directory, to open the trace by
};

// The processes of the recording in `directory`, the root first, then in the order they were made.
// Those whose manifest cannot be read are left out, with a line in `warnings` (may be null).
// `directory` may also name the trace of one child: then only it and its descendants are listed.
absl::StatusOr<std::vector<ProcessInfo>> ListProcesses(const TraceDirectory& directory,
                                                       std::vector<std::string>* warnings);
absl::StatusOr<std::vector<ProcessInfo>> ListProcesses(const std::string& path,
                                                       std::vector<std::string>* warnings);

// Whether `opened`, the status of opening its trace, says that a live ring has dropped the process
// since it was listed: then it is as if it had not been.
bool HasBeenDropped(const ProcessInfo& process, const absl::Status& opened);

// Whether the parents that the manifests name lead from `trace` to a process without one: kDataLoss
// if a process is its own ancestor or a name leads out of the recording, kResourceExhausted beyond
// kMaxAncestors: memory a process was born with is looked for in all of them, each replayed.
inline constexpr size_t kMaxAncestors = 100;
absl::Status CheckAncestry(const TraceDirectory& trace);

class TraceReader {
 public:
  // Of a ring that is being recorded what is dropped while it is listed is left out, and all that
  // was before it; the files of what is left stay open, up to a third of RLIMIT_NOFILE, so that all
  // of it can be read for as long as this lives. kNotFound: all of it was dropped meanwhile.
  // kUnavailable: of all that was listed nothing was left, again and again for `patience`.
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(
      const TraceDirectory& directory, std::chrono::seconds patience = std::chrono::seconds(10));
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(const std::string& path);
  virtual ~TraceReader() = default;

  virtual const std::string& directory() const = 0;
  // The same, to open other traces of the recording by.
  virtual const TraceDirectory& files() const = 0;
  virtual const Manifest& manifest() const = 0;  // state is kInterrupted where that is so
  virtual const ModuleList& modules() const = 0;
  virtual const std::vector<ProcessEvent>& events() const = 0;  // in the order written
  virtual const std::vector<std::string>& warnings() const = 0;
  // Where the trace begins, if it has lost its oldest part; else null. Then threads, segments and
  // full keyframes before are not listed, even where they are still there.
  virtual const TrimmedEvent* trimmed() const { return nullptr; }
  virtual std::vector<int32_t> threads() const = 0;
  virtual const std::vector<SegmentInfo>& segments(int32_t thread) const = 0;  // by number
  // What was found when opening: files that are there, or must have been, and cannot be read or not
  // to their end. What a recorder's death explains is none of it.
  virtual const std::vector<absl::Status>& damage() const = 0;
  virtual absl::StatusOr<std::shared_ptr<const Segment>> LoadSegment(int32_t thread,
                                                                     uint64_t number) const = 0;
  virtual const std::vector<std::shared_ptr<const FullKeyframe>>& full_keyframes() const = 0;

  // The bytes of a stored module, mapped read-only. kNotFound if the trace does not hold them.
  virtual absl::StatusOr<absl::Span<const uint8_t>> ModuleBytes(int32_t module) const = 0;

  // Sizes on disk, for `info`. Traces of other processes in this one's directory do not count;
  // bytes of modules do only where this trace's own directory has them.
  struct Sizes {
    uint64_t segments = 0, modules = 0, full_keyframes = 0, events = 0, total = 0;
  };
  virtual Sizes sizes() const = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_TRACE_READER_H_
