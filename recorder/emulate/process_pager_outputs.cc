// ProcessPager: what others than threads of the process have written.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "recorder/emulate/process_pager.h"

namespace hindsight {
namespace {

// Pages fetched in one system call.
constexpr size_t kFetchPages = 256;
// After a call that may have written anywhere so many pages that are not in use are compared, at
// 0.3 us each; of more nothing is known from then on.
constexpr size_t kMaxConfirmed = 4096;
// No kernel copies more to a program at once and then counts it as a whole.
constexpr uint64_t kLargestPiece = 1 << 20;

bool Contains(const MemoryRange& range, uint64_t page) {
  return page < range.address + range.size && range.address < page + kPageBytes;
}

// Without those that end beyond the last address: lengths may be the program's own nonsense.
MemoryRange Clipped(const MemoryRange& range) {
  return {range.address, std::min(range.size, ~uint64_t{0} - range.address - kPageBytes)};
}

}  // namespace

std::vector<ProcessPager::Page*> ProcessPager::Fetch(absl::Span<Page* const> unordered) {
  scratch_.resize(std::max(scratch_.size(), kFetchPages * kPageBytes));
  // Neighbours are read together.
  std::vector<Page*> pages(unordered.begin(), unordered.end());
  std::sort(pages.begin(), pages.end(),
            [](const Page* a, const Page* b) { return a->address < b->address; });
  std::vector<Page*> unreadable;
  std::vector<MemoryPiece> pieces;
  for (size_t first = 0; first < pages.size();) {
    const size_t batch = std::min(kFetchPages, pages.size() - first);
    pieces.clear();
    for (size_t i = 0; i < batch; ++i) {
      pieces.push_back({pages[first + i]->address, &scratch_[i * kPageBytes], kPageBytes});
    }
    const size_t got = tracee_->memory().ReadPieces(pieces);
    for (size_t i = 0; i < got; ++i) Import(pages[first + i], &scratch_[i * kPageBytes]);
    first += got;
    if (got < batch) unreadable.push_back(pages[first++]);
  }
  return unreadable;
}

// Looks at pages that are not held.
void ProcessPager::Confirm(absl::Span<Page* const> pages) {
  for (Page* page : Fetch(pages)) Leave(page);
}

void ProcessPager::Leave(Page* page) {
  if (page->left && !careful_) return;  // another thread may have imported it since
  page->left = true;
  log_->Append(count_, PageLeft{page->address});
}

// Pages that have not been used for long are dropped instead.
void ProcessPager::CompareInUse(absl::Span<Page* const> pages) {
  std::vector<Page*> keep, drop;
  for (Page* page : pages) (page->keep.Use() ? keep : drop).push_back(page);
  // FollowOthers takes no notice of pages in use, so these are looked at one more time.
  if (careful_) Confirm(drop);
  Drop(drop);
  Refresh(keep);
  for (Page* page : drop) {
    // Other processes write to memory shared with them in their turns.
    if (page->shared || page->discarded) Leave(page);
  }
}

// Of the pages held those that the call may have changed, and those that others can.
void ProcessPager::CompareOutputs(const SyscallOutputs& effects) {
  // What is there now may show a file, or not any more: that is found out when it is next touched.
  std::vector<Page*> other_memory = HeldIn(effects.remapped);
  std::erase_if(other_memory, [](const Page* page) { return Watched(*page); });
  Drop(other_memory);
  std::erase_if(watched_, [](const Page* page) { return !Watched(*page); });
  CompareInUse(std::vector<Page*>(watched_));
  for (const auto* ranges : {&effects.written, &effects.perhaps_written, &effects.unfilled}) {
    Refresh(HeldIn(*ranges));
  }
}

bool ProcessPager::Resync(const SyscallOutputs& effects, Compare compare) {
  bool told = true;
  if (compare != Compare::kAll) CompareOutputs(effects);
  if (compare != Compare::kOutputs) {
    const uint64_t changes_before = changes_;
    std::vector<Page*> pages = unsealed_;
    if (compare == Compare::kProbe) {
      std::erase_if(pages, [](const Page* page) { return Watched(*page); });
    }
    CompareInUse(pages);
    told = compare == Compare::kAll || changes_ == changes_before;
  }
  TakeEffects(effects);
  if (!told) TakeUnknown();
  return told;
}

// In pages not held.
void ProcessPager::TakeEffects(const SyscallOutputs& effects) {
  if (!effects.known || written_elsewhere_) TakeUnknown();
  if (!effects.remapped.empty()) Confirm(BelievedIn(effects.remapped));
  for (const MemoryRange& range : effects.written) TakeWritten(Clipped(range));
  // It may be far more than what was stored: only what is known may be old.
  if (!effects.perhaps_written.empty()) Confirm(BelievedIn(effects.perhaps_written));
  TakeUnfilled(effects.unfilled);
  if (!effects.discarded.empty()) {
    for (const auto& [address, page] : pages_) {
      for (const MemoryRange& range : effects.discarded) {
        if (!page->in_segment || !Contains(Clipped(range), address)) continue;
        if (page->held && !page->sealed && !Watched(*page)) watched_.push_back(page.get());
        page->discarded = true;
      }
    }
    for (Page* page : BelievedIn(effects.discarded)) Leave(page);
  }
  if (effects.writes_files) {
    std::vector<Page*> of_files;
    for (const auto& [address, page] : pages_) {
      if (page->of_file && Believed(*page)) of_files.push_back(page.get());
    }
    Confirm(of_files);
  }
}

void ProcessPager::TakeUnknown() {
  std::vector<Page*> believed;
  for (const auto& [address, page] : pages_) {
    if (Believed(*page)) believed.push_back(page.get());
  }
  if (written_elsewhere_ || believed.size() > kMaxConfirmed) {
    for (Page* page : believed) Leave(page);
  } else {
    Confirm(believed);
  }
}

template <typename Predicate>
std::vector<ProcessPager::Page*> ProcessPager::PagesIn(absl::Span<const MemoryRange> ranges,
                                                       Predicate predicate) const {
  std::vector<Page*> pages;
  for (const MemoryRange& whole : ranges) {
    const MemoryRange range = Clipped(whole);
    if (range.size / kPageBytes < pages_.size()) {
      const uint64_t first = range.address & ~(kPageBytes - 1);
      for (uint64_t at = first; at < range.address + range.size; at += kPageBytes) {
        const auto it = pages_.find(at);
        if (it != pages_.end() && predicate(*it->second)) pages.push_back(it->second.get());
      }
      continue;
    }
    for (const auto& [address, page] : pages_) {
      if (predicate(*page) && Contains(range, address)) pages.push_back(page.get());
    }
  }
  return pages;
}

std::vector<ProcessPager::Page*> ProcessPager::BelievedIn(
    absl::Span<const MemoryRange> ranges) const {
  return PagesIn(ranges, [](const Page& page) { return Believed(page); });
}

std::vector<ProcessPager::Page*> ProcessPager::HeldIn(absl::Span<const MemoryRange> ranges) const {
  return PagesIn(ranges, [](const Page& page) { return page.held && !page.sealed; });
}

// Where the first byte of [address, address + size) lies that the kernel may not be able to store
// to; the range's end if there is none.
uint64_t ProcessPager::EndOfWritable(const MemoryRange& range) const {
  const uint64_t end = range.address + range.size;
  for (uint64_t at = range.address; at < end;) {
    const MapRegion* region = space_->Find(at);
    // A file may end before its mapping does.
    const bool writable = region != nullptr && (region->protection & PROT_WRITE) != 0;
    if (!writable || region->inode != 0) return writable ? region->end : at;
    at = region->end;
  }
  return end;
}

void ProcessPager::TakeUnfilled(absl::Span<const MemoryRange> ranges) {
  std::vector<MemoryRange> writable;
  bool all = true;
  for (const MemoryRange& whole : ranges) {
    const MemoryRange range = Clipped({whole.address, std::min(whole.size, kLargestPiece)});
    const uint64_t end = EndOfWritable(range);
    all &= end == range.address + range.size;
    writable.push_back({range.address, end - range.address});
  }
  if (all) return;
  for (const MemoryRange& range : writable) TakeWritten(range);
}

void ProcessPager::TakeWritten(const MemoryRange& range) {
  if (range.size == 0) return;
  const bool bulk = bulk_bytes_ != 0 && range.size > bulk_bytes_;
  const uint64_t end = range.address + range.size;
  for (uint64_t at = range.address; at < end;) {
    const MapRegion* region = space_->Find(at);
    if (region == nullptr) return;
    TakeOutputPages(*region, at & ~(kPageBytes - 1), std::min(end, region->end), bulk);
    at = region->end;
  }
}

void ProcessPager::TakeOutputPages(const MapRegion& region, uint64_t first, uint64_t end,
                                   bool bulk) {
  std::vector<Page*> pages;
  for (uint64_t address = first; address < end; address += kPageBytes) {
    Page* const page = Lookup(address);
    if (page->host == nullptr) return;
    if (page->held || (page->in_segment && page->sealed)) continue;
    Describe(page, region);
    if (bulk || space_->uncached(region)) {
      Leave(page);
    } else {
      pages.push_back(page);
    }
  }
  Confirm(pages);
  if (!region.shared) return;
  // It is not the process's own: it must be looked at again, or left.
  for (Page* page : pages) {
    if (page->left) continue;
    Hold(page);
    cpu_->SetRights(page->address, PageRights::kRead);
  }
}

std::vector<MemoryRange> ProcessPager::WritablePages() const {
  std::vector<MemoryRange> pages;
  for (const auto& [address, page] : pages_) {
    const MapRegion* region = space_->Find(address);
    if (!page->in_segment && !page->written && !page->left) continue;
    if (region == nullptr || (region->protection & PROT_WRITE) == 0) continue;
    pages.push_back({address, kPageBytes});
  }
  return pages;
}

void ProcessPager::ResyncShared() {
  std::vector<Page*> keep, drop;
  for (Page* page : unsealed_) {
    if (page->shared) (page->keep.Use() ? keep : drop).push_back(page);
  }
  Drop(drop);
  Refresh(keep);
  for (Page* page : drop) Leave(page);
}

void ProcessPager::ResyncSeenTwice() {
  std::vector<Page*> pages;
  for (Page* page : unsealed_) {
    if (page->shared || page->follows) pages.push_back(page);
  }
  Refresh(pages);
}

void ProcessPager::FollowOthers() {
  if (!witnesses_->enabled()) return;
  for (const auto& [address, page] : pages_) {
    if (!Believed(*page) || !witnesses_->HasNews(address, this, witnessed_)) continue;
    if (witnesses_->KnownLines(address, this, page->host) != ~uint64_t{0}) Leave(page.get());
  }
  witnessed_ = witnesses_->time();
}

}  // namespace hindsight
