// What the threads of a process have in their views at a moment, as far as memory is looked up
// there.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_THREAD_VIEWS_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_THREAD_VIEWS_H_

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/memory/page_bits.h"
#include "keyframes/replay/segment_replay.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// When a thread last learned or wrote a byte.
struct Learned {
  uint64_t moment = 0;
  // The state of the thread: that in which it was imported, or that which a write led to.
  uint64_t count = 0;
  bool imported = false;
  bool is_new = false;                    // of an import: no other thread was known to have it
  uint8_t turn = PageImport::kFirstTurn;  // of an import: see there
};

// A line as somebody has seen it.
struct StoredLine {
  uint64_t address = 0;
  std::array<uint8_t, kLineBytes> bytes = {};
  // The state of a thread from which on only its own stores change its view of the line.
  uint64_t since = 0;
  std::bitset<kLineBytes> open;  // bytes that have not been what was seen, since then
  // Of each byte the state that the first of these led to that made it so; 0: none has, or it was
  // so before.
  std::array<uint64_t, kLineBytes> stored = {};
};

// Interface. One host thread at a time.
class ThreadViews {
 public:
  virtual ~ThreadViews() = default;
  // The replay of `thread`, in its state at `moment`. Valid until the next call.
  virtual absl::StatusOr<const SegmentReplay*> ReplayAt(int32_t thread, uint64_t moment,
                                                        const std::atomic<bool>* interrupt) = 0;
  // The segment that `thread` is in at `moment`.
  virtual absl::StatusOr<std::shared_ptr<const Segment>> SegmentAt(int32_t thread,
                                                                   uint64_t moment) = 0;
  // When `thread` last learned or wrote those `bytes` of `page` (one for each byte of the page): in
  // its segment at `moment`, or in an earlier one, `ended`. What it wrote before `since` need not
  // be found.
  virtual absl::StatusOr<std::vector<Learned>> LastKnown(int32_t thread,
                                                         std::optional<uint64_t> ended,
                                                         uint64_t moment, uint64_t page,
                                                         const PageBits& bytes, uint64_t since,
                                                         const std::atomic<bool>* interrupt) = 0;
  // Fills in the rest of these lines: by the stores of `thread` from its state `from` on, up to
  // that at `moment`. What many segments after `from` has been stored need not be found.
  virtual absl::Status FindStores(int32_t thread, uint64_t from, uint64_t moment,
                                  absl::Span<StoredLine> lines,
                                  const std::atomic<bool>* interrupt) = 0;
  // Memory that the process was born with; kNotFound if that is not known.
  virtual absl::Status ReadBirth(uint64_t page, absl::Span<uint8_t> out) = 0;
  // Whether that page of it had not been touched (MemoryView::IsUntouched).
  virtual absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t page) = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_THREAD_VIEWS_H_
