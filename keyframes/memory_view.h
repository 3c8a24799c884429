// What memory reads answer at a position.
//
// A page that the present segment's view holds is read there. (One that enters the view later in
// the segment is not known yet.) Else its bytes are, in this order:
//   1. those at the end of the newest earlier segment that touched it, back to the newest full
//      keyframe; that segment is replayed once, and the pages of its end are kept;
//   2. those in that keyframe;
//   3. those of the module mapped there.
// Else it is not known. For 1 to 3 the memory map must have the page at the position, if the trace
// has a map at all: what was unmapped cannot be read.
//
// Borrows the trace and the process state. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_VIEW_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/process_state.h"
#include "keyframes/replayer.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class MemoryView {
 public:
  MemoryView(const TraceReader* trace, const ProcessState* process, int32_t thread,
             uint64_t cache_bytes)
      : trace_(trace), process_(process), thread_(thread), cache_bytes_(cache_bytes) {}
  MemoryView(const MemoryView&) = delete;
  MemoryView& operator=(const MemoryView&) = delete;

  // Reads at the state `present` stands in as many bytes of `out` as are known from its start, and
  // returns how many. kNotFound if the first is not.
  absl::StatusOr<size_t> Read(const SegmentReplay& present, uint64_t address,
                              absl::Span<uint8_t> out);
  // The page as it was known before segment `number` touched it; kNotFound if it was not.
  absl::Status ReadBefore(uint64_t number, uint64_t count, uint64_t page, absl::Span<uint8_t> out);
  // Saves a replay: `bytes` are those of `page` at the end of segment `number`.
  void Remember(uint64_t number, uint64_t page, absl::Span<const uint8_t> bytes);

 private:
  // Pages at the end of a segment.
  struct Ending {
    uint64_t number = 0;
    absl::flat_hash_map<uint64_t, size_t> offset;  // of a page in `bytes`
    std::vector<uint8_t> bytes;
  };
  using Remembered = std::pair<uint64_t, uint64_t>;  // segment, page

  absl::StatusOr<const std::vector<uint64_t>*> TouchedPages(uint64_t number);
  absl::StatusOr<const Ending*> EndingOf(uint64_t number);
  absl::Status ReadEarlierSegments(uint64_t number, uint64_t count, uint64_t page,
                                   absl::Span<uint8_t> out);
  absl::Status ReadModule(uint64_t moment, uint64_t page, absl::Span<uint8_t> out);

  const TraceReader* const trace_;
  const ProcessState* const process_;
  const int32_t thread_;
  const uint64_t cache_bytes_;
  absl::flat_hash_map<uint64_t, std::vector<uint64_t>> touched_;  // by segment; ascending pages
  std::list<Ending> endings_;                                     // most recently used first
  uint64_t ending_bytes_ = 0;
  absl::flat_hash_map<Remembered, std::vector<uint8_t>> remembered_;
  std::unique_ptr<SegmentReplay> side_;  // replays earlier segments; made when first needed
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_VIEW_H_
