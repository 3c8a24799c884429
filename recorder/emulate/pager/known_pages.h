// The pages that a thread's view or the open segment of its trace knows, and the lists they are on.
//
//   not here --Add--> known --Hold--> in use --LetGo--> known --Erase--> not here
//
// In use ("held"): the view grants access. Of those, `in_use` must be compared with the process
// after whatever may have changed it; the others are sealed: pages of ELF files that cannot be
// written, which are not rewritten in place. `watched` are those in use that can change without a
// system call of the process.
//
// Erased pages that the segment has are remembered by address: their next import is whole, but not
// the segment's first. Knows no process and no Cpu. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_PAGER_KNOWN_PAGES_H_
#define HINDSIGHT_RECORDER_EMULATE_PAGER_KNOWN_PAGES_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "recorder/process/address_space.h"
#include "recorder/syscalls/syscall_outputs.h"
#include "tracefmt/records.h"

namespace hindsight {

// What the trace's open segment knows of a page.
enum class PageStanding : uint8_t {
  kNone,   // nothing
  kLeft,   // what it held before it was left
  kKnown,  // its contents
};

// How many more syncs a page is kept in a state without proving that it is used. Doubles whenever
// the page must be faulted in again.
struct PageGrant {
  uint8_t size = 0;
  uint8_t left = 0;
  void Renew();
  bool Use();
};

// What a page shows, as far as maps can tell.
struct PageBacking {
  uint32_t protection = 0;
  uint32_t device_major = 0, device_minor = 0;
  uint64_t inode = 0;
  uint64_t file_offset = 0;  // of the page
  bool shared = false, uncached = false, follows = false;
  bool operator==(const PageBacking&) const = default;
};

// A plain struct: what is known of one page.
struct KnownPage {
  uint64_t address = 0;
  PageBacking backing;      // when it was described last: since it is held, at least
  uint8_t* host = nullptr;  // its bytes in the view
  bool in_segment = false;  // the open segment has an import of it
  bool held = false;        // the view grants access
  bool dirty = false;       // kReadWrite, on the list of WrittenPages
  bool sealed = false;      // need not be compared
  bool shared = false;
  bool follows = false;     // AddressSpace::follows
  bool maybe_code = false;  // was executable at some time: the Cpu may have translated it
  bool written = false;     // by this thread, ever
  bool of_file = false;     // private, and shows a file that may be written
  bool of_others = false;   // shows a file, or the kernel's own data, as long as it is not copied
  bool copied = false;      // by a write: the process's own from then on, if private
  bool discarded = false;   // the kernel may take it away until it is written
  bool released = false;    // its contents are not known here though the segment has them
  bool left = false;        // the last thing logged of it in this segment is that it was left
  PageGrant keep, stay_writable;
  // Of a dirty page that is shared or of a process with other threads: what it was. Only bytes
  // changed by the thread may be written back.
  std::unique_ptr<std::array<uint8_t, kPageBytes>> pristine;

  // It can change without a system call of the process.
  // A file that is truncated takes its pages along, copied ones too.
  bool watched() const {
    return shared || follows || discarded || of_file || (of_others && !copied);
  }
  // The trace has the page's contents, it is not in use, and it can change.
  bool believed() const { return in_segment && !held && !left && !sealed; }
  PageStanding knowledge() const;
  void SavePristine();
};

class KnownPages {
 public:
  KnownPages() = default;
  KnownPages(const KnownPages&) = delete;
  KnownPages& operator=(const KnownPages&) = delete;

  // Null if the page is not known.
  KnownPage* Find(uint64_t address) const;
  // The page, made if need be; its `host` is null then.
  KnownPage* Add(uint64_t address);
  // Forgets pages that are not held.
  void Erase(absl::Span<KnownPage* const> pages);
  // Chunks of the view (by first address) that have had no page for long: their host memory is
  // worth giving back.
  std::vector<uint64_t> TakeEmptyChunks();
  // No page is known; the segment has none.
  void Clear();
  // A new segment: it has no page yet.
  void StartSegment();
  // From now on no page is sealed, of those that are known.
  void Unseal();

  void Hold(KnownPage* page);
  // Ends that; returns the addresses of those that were held.
  std::vector<uint64_t> LetGo(absl::Span<KnownPage* const> pages);
  const std::vector<KnownPage*>& in_use() const { return in_use_; }
  const std::vector<KnownPage*>& watched();
  // `page` is held and has become one that is watched.
  void Watch(KnownPage* page) { watched_.push_back(page); }
  bool has_shared() const { return shared_held_ > 0; }

  // All that `predicate` is true for: anywhere, or in these ranges (which may be nonsense of the
  // program's). A page that lies in two ranges may come twice.
  template <typename Predicate>
  std::vector<KnownPage*> All(const Predicate& predicate) const;
  template <typename Predicate>
  std::vector<KnownPage*> In(absl::Span<const MemoryRange> ranges,
                             const Predicate& predicate) const;
  // Those in these ranges, each once.
  std::vector<KnownPage*> Within(absl::Span<const AddressSpace::Range> ranges) const;

  // How many pages the segment has.
  uint64_t segment_pages() const;
  PageStanding KnowledgeOf(uint64_t address) const;
  // As replay has it. False if not all of it is known.
  bool ReadKnown(uint64_t address, absl::Span<uint8_t> out) const;
  // Pages in use that this thread has written to, at most `number`, others at each call.
  std::vector<uint64_t> SomeWritten(size_t number);

 private:
  absl::flat_hash_map<uint64_t, std::unique_ptr<KnownPage>> pages_;
  absl::flat_hash_map<uint64_t, size_t> chunk_pages_;  // of pages_, by chunk of the view
  std::deque<uint64_t> empty_chunks_;                  // that were, when they were put here
  absl::flat_hash_set<uint64_t> released_;  // pages the open segment has, and pages_ no more
  std::vector<KnownPage*> in_use_;          // held and not sealed
  std::vector<KnownPage*> watched_;         // of those all that are watched, and some that were
  size_t shared_held_ = 0;
  size_t next_sample_ = 0;  // in in_use_
};

// A range of the program's own making, without what lies after the last address.
MemoryRange Clipped(const MemoryRange& range);
// Whether the range, clipped, has a byte of the page.
bool Touches(const MemoryRange& range, uint64_t page);

template <typename Predicate>
std::vector<KnownPage*> KnownPages::All(const Predicate& predicate) const {
  std::vector<KnownPage*> pages;
  for (const auto& [address, page] : pages_) {
    if (predicate(*page)) pages.push_back(page.get());
  }
  return pages;
}

template <typename Predicate>
std::vector<KnownPage*> KnownPages::In(absl::Span<const MemoryRange> ranges,
                                       const Predicate& predicate) const {
  std::vector<KnownPage*> pages;
  for (const MemoryRange& whole : ranges) {
    const MemoryRange range = Clipped(whole);
    if (range.size / kPageBytes < pages_.size()) {
      const uint64_t first = range.address & ~(kPageBytes - 1);
      for (uint64_t at = first; at < range.address + range.size; at += kPageBytes) {
        KnownPage* const page = Find(at);
        if (page != nullptr && predicate(*page)) pages.push_back(page);
      }
      continue;
    }
    for (const auto& [address, page] : pages_) {
      if (predicate(*page) && Touches(range, address)) pages.push_back(page.get());
    }
  }
  return pages;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PAGER_KNOWN_PAGES_H_
