// Whether what a thread's view has of a page is of memory that a system call has replaced since:
// unmapped, mapped anew, moved or emptied. The views do not say so themselves where threads ran at
// the same time; where they took turns a page that is replaced leaves the views (PageLeft), but may
// be imported where the thread still waits.
//
// Borrows the trace, the process state and the origins. Not copyable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_PAGE_REPLACEMENTS_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_PAGE_REPLACEMENTS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "keyframes/memory/touched_pages.h"
#include "keyframes/state/memory_origin.h"
#include "keyframes/state/process_state.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

using SegmentKey = std::pair<int32_t, uint64_t>;  // thread, number

// The pages of segments, as far as they were asked for.
class TouchedSegments {
 public:
  explicit TouchedSegments(const TraceReader* trace) : trace_(trace) {}
  TouchedSegments(const TouchedSegments&) = delete;
  TouchedSegments& operator=(const TouchedSegments&) = delete;

  // Valid until the next call.
  absl::StatusOr<const TouchedPages*> Of(const SegmentKey& key);

 private:
  const TraceReader* const trace_;
  absl::flat_hash_map<SegmentKey, TouchedPages> touched_;
};

// A replacement as a thread has seen it.
struct SeenReplacement {
  MemoryReplacement by;
  uint64_t first_count = 0;  // the first state in which what comes in is newer
};

class PageReplacements {
 public:
  PageReplacements(const TraceReader* trace, const ProcessState* process,
                   const MemoryOrigins* origins, TouchedSegments* touched)
      : trace_(trace), process_(process), origins_(origins), touched_(touched) {}
  PageReplacements(const PageReplacements&) = delete;
  PageReplacements& operator=(const PageReplacements&) = delete;

  // What has replaced the page since it came into the segment's view: in the thread's state at
  // `moment`, or in the segment's last one if the moment is later. nullopt: nothing, or it may have
  // come in again.
  absl::StatusOr<std::optional<SeenReplacement>> Since(const SegmentKey& key, uint64_t moment,
                                                       uint64_t page) const;
  // Of a thread that waits: whether what it has of the page may be what it found when its turn
  // began, after `moment`, because the page was replaced meanwhile. (That, too, is imported in the
  // state in which it waits, and no other thread may have known it.)
  absl::StatusOr<bool> IsOfTurnToCome(const SegmentKey& key, uint64_t moment, uint64_t page) const;

 private:
  const TraceReader* const trace_;
  const ProcessState* const process_;
  const MemoryOrigins* const origins_;
  TouchedSegments* const touched_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_PAGE_REPLACEMENTS_H_
