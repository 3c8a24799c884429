// What the threads of a process have in their views at a moment, as far as memory is looked up
// there.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_THREAD_VIEWS_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_THREAD_VIEWS_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/memory/page_bits.h"
#include "keyframes/replay/segment_replay.h"

namespace hindsight {

// When a thread last learned or wrote a byte.
struct Learned {
  uint64_t moment = 0;
  // The state of the thread: that in which it was imported, or that which a write led to.
  uint64_t count = 0;
  bool imported = false;
};

// Interface. One host thread at a time.
class ThreadViews {
 public:
  virtual ~ThreadViews() = default;
  // The replay of `thread`, in its state at `moment`. Valid until the next call.
  virtual absl::StatusOr<const SegmentReplay*> ReplayAt(int32_t thread, uint64_t moment,
                                                        const std::atomic<bool>* interrupt) = 0;
  // When `thread` last learned or wrote those `bytes` of `page` (one for each byte of the page): in
  // its segment at `moment`, or in an earlier one, `ended`. What it wrote before `since` need not
  // be found.
  virtual absl::StatusOr<std::vector<Learned>> LastKnown(int32_t thread,
                                                         std::optional<uint64_t> ended,
                                                         uint64_t moment, uint64_t page,
                                                         const PageBits& bytes, uint64_t since,
                                                         const std::atomic<bool>* interrupt) = 0;
  // Memory that the process was born with; kNotFound if that is not known.
  virtual absl::Status ReadBirth(uint64_t page, absl::Span<uint8_t> out) = 0;
  // Whether that page of it had not been touched (MemoryView::IsUntouched).
  virtual absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t page) = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_THREAD_VIEWS_H_
