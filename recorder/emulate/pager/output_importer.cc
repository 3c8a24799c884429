#include "recorder/emulate/pager/output_importer.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace hindsight {
namespace {

// After a call that may have written anywhere so many pages that are not in use are compared, at
// 0.3 us each; of more nothing is known from then on.
constexpr size_t kMaxConfirmed = 4096;
// No kernel copies more to a program at once and then counts it as a whole.
constexpr uint64_t kLargestPiece = 1 << 20;

constexpr auto kBelieved = [](const KnownPage& page) { return page.believed(); };

// Where the first byte of the range lies that the kernel may not be able to store to; the range's
// end if there is none.
uint64_t EndOfWritable(const AddressSpace& space, const MemoryRange& range) {
  const uint64_t end = range.address + range.size;
  for (uint64_t at = range.address; at < end;) {
    const MapRegion* region = space.Find(at);
    // A file may end before its mapping does.
    const bool writable = region != nullptr && (region->protection & PROT_WRITE) != 0;
    if (!writable || region->inode != 0) return writable ? region->end : at;
    at = region->end;
  }
  return end;
}

}  // namespace

KnownPage* OutputImporter::Lookup(uint64_t address) {
  KnownPage* const page = pages_->Add(address);
  if (page->host == nullptr) page->host = cpu_->HostPage(address);
  return page;
}

void OutputImporter::Take(const AddressSpace& space, const SyscallOutputs& effects) {
  if (!effects.known || written_elsewhere_) TakeUnknown(space);
  if (!effects.remapped.empty()) {
    importer_->Confirm(space, pages_->In(effects.remapped, kBelieved));
  }
  for (const MemoryRange& range : effects.written) TakeWritten(space, Clipped(range));
  // It may be far more than what was stored: only what is known may be old.
  if (!effects.perhaps_written.empty()) {
    importer_->Confirm(space, pages_->In(effects.perhaps_written, kBelieved));
  }
  TakeUnfilled(space, effects.unfilled);
  if (!effects.discarded.empty()) TakeDiscarded(effects.discarded);
  if (effects.writes_files) {
    importer_->Confirm(
        space, pages_->All([](const KnownPage& page) { return page.of_file && page.believed(); }));
  }
}

void OutputImporter::TakeDiscarded(absl::Span<const MemoryRange> ranges) {
  const auto of_segment = [](const KnownPage& page) { return page.in_segment; };
  for (KnownPage* page : pages_->In(ranges, of_segment)) {
    const bool was_watched = page->watched();
    page->discarded = true;
    if (page->held && !page->sealed && !was_watched) pages_->Watch(page);
  }
  for (KnownPage* page : pages_->In(ranges, kBelieved)) importer_->Leave(page);
}

void OutputImporter::TakeUnknown(const AddressSpace& space) {
  const std::vector<KnownPage*> believed = pages_->All(kBelieved);
  if (written_elsewhere_ || believed.size() > kMaxConfirmed) {
    for (KnownPage* page : believed) importer_->Leave(page);
  } else {
    importer_->Confirm(space, believed);
  }
}

void OutputImporter::TakeUnfilled(const AddressSpace& space, absl::Span<const MemoryRange> ranges) {
  std::vector<MemoryRange> writable;
  bool all = true;
  for (const MemoryRange& whole : ranges) {
    const MemoryRange range = Clipped({whole.address, std::min(whole.size, kLargestPiece)});
    const uint64_t end = EndOfWritable(space, range);
    all &= end == range.address + range.size;
    writable.push_back({range.address, end - range.address});
  }
  if (all) return;
  for (const MemoryRange& range : writable) TakeWritten(space, range);
}

void OutputImporter::TakeWritten(const AddressSpace& space, const MemoryRange& range) {
  if (range.size == 0) return;
  const bool bulk = bulk_bytes_ != 0 && range.size > bulk_bytes_;
  const uint64_t end = range.address + range.size;
  for (uint64_t at = range.address; at < end;) {
    const MapRegion* region = space.Find(at);
    if (region == nullptr) return;
    TakePages(space, *region, at & ~(kPageBytes - 1), std::min(end, region->end), bulk);
    at = region->end;
  }
}

void OutputImporter::TakePages(const AddressSpace& space, const MapRegion& region, uint64_t first,
                               uint64_t end, bool bulk) {
  std::vector<KnownPage*> pages;
  for (uint64_t address = first; address < end; address += kPageBytes) {
    KnownPage* const page = Lookup(address);
    if (page->host == nullptr) return;
    if (page->held || (page->in_segment && page->sealed)) continue;
    importer_->Describe(space, region, page);
    if (bulk || space.uncached(region)) {
      importer_->Leave(page);
    } else {
      pages.push_back(page);
    }
  }
  importer_->Confirm(space, pages);
  if (!region.shared) return;
  // It is not the process's own: it must be looked at again, or left.
  for (KnownPage* page : pages) {
    if (page->left) continue;
    pages_->Hold(page);
    cpu_->SetRights(page->address, PageRights::kRead);
  }
}

}  // namespace hindsight
