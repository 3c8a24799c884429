// The pages of a process that code was translated from: a replay fetches it from the view of the
// thread that executes it, where it must be although no thread has read it.
//
//   ProgramCode --Publish, before the block is executed--> ExecutedPages <--- streams of threads
//
// What a thread tells after it has executed a block was written after the block's pages were
// published: who sees the one sees the other.
//
// Not copyable. Any host thread, at any time.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_EXECUTED_PAGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_EXECUTED_PAGES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "isa/host_features.h"
#include "tracefmt/records.h"

namespace hindsight {

struct ExecutedPage {
  uint64_t address = 0;
  std::array<uint8_t, kPageBytes> bytes = {};
  // False: only fetched, as what follows a block. It may be data, of which a view that has the page
  // knows more.
  bool executed = false;
};

class ExecutedPages {
 public:
  ExecutedPages() = default;
  ExecutedPages(const ExecutedPages&) = delete;
  ExecutedPages& operator=(const ExecutedPages&) = delete;

  // `bytes` are of one page. Nothing happens if that is what was published of it last.
  void Publish(uint64_t address, absl::Span<const uint8_t> bytes, bool executed);
  // [start, end) holds other things from now on; `time` is the processor's clock.
  void Withdraw(uint64_t start, uint64_t end, uint64_t time);

  // To replay the code that was translated takes a processor with these.
  void Need(HostFeatures features) { needed_.fetch_or(features.bits(), std::memory_order_relaxed); }
  HostFeatures needed() const {
    return HostFeatures::FromBits(needed_.load(std::memory_order_relaxed));
  }

  // How often a page was published so far.
  size_t size() const { return size_.load(std::memory_order_acquire); }
  // The index-th. Stays where it is, and as it is. Requires: index < size().
  const ExecutedPage& page(size_t index) const;
  // Whether who begins at `time` may execute what was published as the index-th. Requires: index <
  // size().
  bool IsValid(size_t index, uint64_t time) const;

 private:
  struct Published {
    ExecutedPage page;
    uint64_t valid_until = ~uint64_t{0};
    bool superseded = false;
  };

  mutable std::mutex mutex_;
  std::deque<Published> pages_;
  absl::flat_hash_map<uint64_t, size_t> last_;  // by address
  std::atomic<size_t> size_ = 0;                // of pages_
  std::atomic<uint64_t> needed_ = 0;            // HostFeatures
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_EXECUTED_PAGES_H_
