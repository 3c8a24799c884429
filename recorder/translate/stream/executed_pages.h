// The pages of a process that code was translated from: a replay fetches it from the view of the
// thread that executes it, where it must be although no thread has read it.
//
//   ProgramCode --Publish, before the block is executed--> ExecutedPages <--- streams of threads
//
// What a thread tells after it has executed a block was written after the block's pages were
// published: who sees the one sees the other. Other code takes the place of code that was executed
// only after all that was told before has been read.
//
// Of a page that is published anew, as when a program compiles again and again, what was published
// before is given up: a thread that has not got it yet gets both in the same state, where the later
// one is what counts. So as much is kept as there are pages that have ever been executed.
//
// Not copyable. Any host thread, at any time.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_EXECUTED_PAGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_EXECUTED_PAGES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "isa/host_features.h"
#include "recorder/log/opened_modules.h"
#include "tracefmt/records.h"

namespace hindsight {

struct ExecutedPage {
  uint64_t address = 0;
  std::array<uint8_t, kPageBytes> bytes = {};
  // False: only fetched, as what follows a block. It may be data, of which a view that has the page
  // knows more.
  bool executed = false;

  // What those who add it to segments have found out, for all processes that execute it. One host
  // thread.
  struct Found {
    uint64_t hash = 0;                     // 0: not computed
    std::weak_ptr<const ModuleFile> file;  // compared with this one, there
    uint64_t offset = 0;
    bool equals = false;
  };
  mutable Found found;
};

// Pages that any process of a recording has executed: many execute the same. Any host thread.
class ExecutedPagePool {
 public:
  ExecutedPagePool() = default;
  ExecutedPagePool(const ExecutedPagePool&) = delete;
  ExecutedPagePool& operator=(const ExecutedPagePool&) = delete;

  // One of these `bytes`, which are of one page, at `address`.
  std::shared_ptr<const ExecutedPage> Get(uint64_t address, absl::Span<const uint8_t> bytes,
                                          bool executed);

 private:
  static constexpr size_t kMost = 8192;

  std::mutex mutex_;
  // The last one at each address; guarded by mutex_.
  absl::flat_hash_map<uint64_t, std::shared_ptr<const ExecutedPage>> pages_;
};

class ExecutedPages {
 public:
  // `pool` null: one of its own.
  explicit ExecutedPages(std::shared_ptr<ExecutedPagePool> pool = nullptr)
      : pool_(pool != nullptr ? std::move(pool) : std::make_shared<ExecutedPagePool>()) {}
  ExecutedPages(const ExecutedPages&) = delete;
  ExecutedPages& operator=(const ExecutedPages&) = delete;

  // `bytes` are of one page. Nothing happens if that is what was published of it last.
  void Publish(uint64_t address, absl::Span<const uint8_t> bytes, bool executed);
  // Takes over what `maker` has published, as if it had been published here, but for pages that
  // `leave_out` says. Requires: nothing has been published.
  void Inherit(const ExecutedPages& maker, absl::FunctionRef<bool(uint64_t address)> leave_out);
  // [start, end) holds other things from now on; `time` is the processor's clock.
  void Withdraw(uint64_t start, uint64_t end, uint64_t time);

  // To replay the code that was translated takes a processor with these.
  void Need(HostFeatures features) { needed_.fetch_or(features.bits(), std::memory_order_relaxed); }
  HostFeatures needed() const {
    return HostFeatures::FromBits(needed_.load(std::memory_order_relaxed));
  }

  // How often a page was published so far.
  size_t size() const { return size_.load(std::memory_order_acquire); }

  static constexpr uint64_t kForever = ~uint64_t{0};
  struct Published {
    std::shared_ptr<const ExecutedPage> page;
    size_t index = 0;  // how often one had been published before
    uint64_t valid_until = kForever;
    bool superseded = false;

    // Whether who begins at `time` may execute it.
    bool IsValid(uint64_t time) const { return !superseded && time <= valid_until; }
  };
  // Of one moment.
  struct Batch {
    std::vector<Published> pages;  // by index
    size_t end = 0;                // size()
  };
  // What was published as the index-th and later, and is kept.
  Batch Since(size_t index) const;
  // The page that begins at `address`, as it was published last; null: it was not.
  std::shared_ptr<const ExecutedPage> Find(uint64_t address) const;
  // How many are kept.
  size_t kept() const;

 private:
  void Append(std::shared_ptr<const ExecutedPage> page);
  void GiveUpBefore(const Published& published);

  const std::shared_ptr<ExecutedPagePool> pool_;
  mutable std::mutex mutex_;
  std::map<size_t, Published> pages_;                        // by index
  absl::flat_hash_map<uint64_t, size_t> last_;               // by address, unless it was withdrawn
  absl::flat_hash_map<uint64_t, std::vector<size_t>> kept_;  // by address: at most two
  std::atomic<size_t> size_ = 0;                             // published so far
  std::atomic<uint64_t> needed_ = 0;                         // HostFeatures
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_EXECUTED_PAGES_H_
