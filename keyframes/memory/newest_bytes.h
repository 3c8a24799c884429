// Which of several threads knows the bytes of a page best, where they differ: byte by byte, since
// threads write different parts of a line.
//
// Where threads took turns that is the one that learned or wrote a byte last on the timeline. Where
// they ran at the same time the moment of an import is the true one, but a write may have been as
// late as the thread's next event. Then:
//   - An import is newer than a write that was over before it. Otherwise the import would show what
//     was written, had it been before: the write is newer.
//   - The thread that makes the next transition will read what its own view has. Another's byte is
//     newer only if that is certain: it was over before the thread's present slice began, or a
//     thread has seen it, or what that other one stored after it (seen_stores.h), and it was
//     not there yet when the thread learned the byte, or began after the thread had written it.
//     What is not certain is a race, and the thread's own byte is what it would find if it looked.
//
// Borrows the process's state and views. Copyable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_NEWEST_BYTES_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_NEWEST_BYTES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "keyframes/memory/page_bits.h"
#include "keyframes/memory/thread_views.h"
#include "keyframes/state/process_state.h"

namespace hindsight {

// What one thread knows of a page.
struct ThreadPage {
  int32_t thread = 0;
  std::optional<uint64_t> ended;  // the segment it is the end of; else it is the thread's present
  uint64_t latest = 0;            // no moment at which it was learned or written is later
  std::array<uint8_t, kPageBytes> bytes;
};

class NewestBytes {
 public:
  NewestBytes(const ProcessState* process, ThreadViews* views) : process_(process), views_(views) {}

  struct Question {
    uint64_t moment = 0;
    uint64_t page = 0;
    bool at_once = false;  // threads ran at the same time
    // The thread that makes the next transition, if they did and it is among those who know the
    // page; else 0.
    int32_t running = 0;
    const PageBits* wanted = nullptr;  // the bytes that are asked for; null: all
    const std::atomic<bool>* interrupt = nullptr;
  };
  // `out`: a page, of which other bytes than those that are wanted may be old. Requires: `known` is
  // not empty.
  absl::Status Merge(absl::Span<const ThreadPage> known, const Question& question,
                     absl::Span<uint8_t> out) const;

 private:
  class Order;

  const ProcessState* const process_;
  ThreadViews* const views_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_NEWEST_BYTES_H_
