// What the threads of one process last knew of its pages.
//
// The thread that imported a page or wrote it back last is its newest witness. When another thread
// finds other bytes in the page than its own view has, but those that the newest witness knew, then
// they are not new to the process: a thread of it wrote them. What differs from the witness's bytes
// was written by the kernel or another process. Searches for writes need that distinction.
//
// Witnesses are the host pages of the threads' views, borrowed until Forget. Not copyable. One host
// thread.

#ifndef HINDSIGHT_RECORDER_LOG_PAGE_WITNESS_H_
#define HINDSIGHT_RECORDER_LOG_PAGE_WITNESS_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "tracefmt/records.h"

namespace hindsight {

class PageWitnesses {
 public:
  PageWitnesses() = default;
  PageWitnesses(const PageWitnesses&) = delete;
  PageWitnesses& operator=(const PageWitnesses&) = delete;

  // A process of one thread needs no witnesses: costs nothing until this is called.
  void Enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }

  // The lines of `page` whose bytes in `bytes` are those that the newest witness knew, if that is
  // not `who`.
  uint64_t KnownLines(uint64_t page, const void* who, const uint8_t* bytes) const;
  // Whether another than `who` has become the newest witness of `page` after `since`, a time().
  bool HasNewerWitness(uint64_t page, const void* who, uint64_t since) const {
    const auto it = pages_.find(page);
    return it != pages_.end() && it->second.who != who && it->second.time > since;
  }
  // Whether `page` has had more than one witness: several threads use it.
  bool HasSeveralWitnesses(uint64_t page) const {
    const auto it = pages_.find(page);
    return it != pages_.end() && it->second.several;
  }
  uint64_t time() const { return time_; }
  // From now on `who`, whose copy is at `host`, is the newest witness of `page`.
  void SetNewest(uint64_t page, const void* who, const uint8_t* host) {
    if (enabled_) Put(page, who, host);
  }
  // The memory at `host` is about to be freed. `keep`: `who` may have written the page; its bytes
  // are still needed.
  void Forget(uint64_t page, const void* who, bool keep);
  // A new address space.
  void Clear() { pages_.clear(); }

 private:
  struct Witness {
    const void* who = nullptr;
    const uint8_t* bytes = nullptr;
    uint64_t time = 0;
    bool several = false;
    std::unique_ptr<std::array<uint8_t, kPageBytes>> copy;
  };
  void Put(uint64_t page, const void* who, const uint8_t* host);

  bool enabled_ = false;
  uint64_t time_ = 0;  // calls of SetNewest so far
  absl::flat_hash_map<uint64_t, Witness> pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_PAGE_WITNESS_H_
