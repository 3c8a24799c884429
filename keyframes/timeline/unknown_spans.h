// Where on the timeline memory was not known: between a record that says that a page was left and
// its next import. A search for changes sees nothing there, and must say so.
//
// Reads the records of the segments asked about, once. Borrows the trace and the process state. Not
// copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_UNKNOWN_SPANS_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_UNKNOWN_SPANS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "keyframes/replay/page_history.h"
#include "keyframes/state/process_state.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// What `thread` knew of `page` was not known any more from moment `from` on, and again at `to`; the
// end of the thread's segment if that does not show.
struct UnknownSpan {
  int32_t thread = 0;
  uint64_t page = 0;
  uint64_t from = 0;
  uint64_t to = 0;
};

class UnknownSpans {
 public:
  UnknownSpans(const TraceReader* trace, const ProcessState* process)
      : trace_(trace), process_(process) {}
  UnknownSpans(const UnknownSpans&) = delete;
  UnknownSpans& operator=(const UnknownSpans&) = delete;

  // Those of pages in [address, address + length) that reach into moments low..high, newest first.
  absl::StatusOr<std::vector<UnknownSpan>> Find(uint64_t address, uint64_t length, uint64_t low,
                                                uint64_t high);

 private:
  using SegmentKey = std::pair<int32_t, uint64_t>;  // thread, number

  absl::StatusOr<const PageHistory*> HistoryOf(const SegmentKey& key);

  const TraceReader* const trace_;
  const ProcessState* const process_;
  absl::flat_hash_map<SegmentKey, PageHistory> histories_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_UNKNOWN_SPANS_H_
