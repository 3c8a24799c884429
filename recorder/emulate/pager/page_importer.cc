#include "recorder/emulate/pager/page_importer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "recorder/log/page_diff.h"

namespace hindsight {
namespace {

// Pages fetched in one system call.
constexpr size_t kFetchPages = 256;

// Memory that the kernel itself changes, or shows on a page of its own ([vvar]).
bool IsOfKernel(const MapRegion& region) {
  return absl::StartsWith(region.name, "[") && region.name != "[heap]" &&
         !absl::StartsWith(region.name, "[stack") && !absl::StartsWith(region.name, "[anon");
}

}  // namespace

void PageImporter::Describe(const AddressSpace& space, const MapRegion& region,
                            KnownPage* page) const {
  page->maybe_code = page->maybe_code || (region.protection & PROT_EXEC) != 0;
  page->shared = region.shared;
  page->backing = BackingOf(space, region, page->address);
  page->follows = page->backing.follows;
  const bool elf = modules_->IsElf(region);
  page->sealed = seals_ && !region.shared && !page->follows &&
                 (region.protection & PROT_WRITE) == 0 && (elf || region.name == "[vdso]");
  page->of_file = !region.shared && region.inode != 0 && !elf;
  page->of_others = region.inode != 0 || IsOfKernel(region);
  page->copied = false;
}

PageBacking PageImporter::BackingOf(const AddressSpace& space, const MapRegion& region,
                                    uint64_t page) const {
  return {.protection = region.protection,
          .device_major = region.device_major,
          .device_minor = region.device_minor,
          .inode = region.inode,
          .file_offset = region.inode == 0 ? 0 : region.file_offset + (page - region.start),
          .shared = region.shared,
          .uncached = space.uncached(region),
          .follows = space.follows(region)};
}

uint64_t PageImporter::KnownLines(const KnownPage& page, const uint8_t* bytes) const {
  return witnesses_->enabled() ? witnesses_->KnownLines(page.address, who_, bytes) : 0;
}

void PageImporter::LogFirst(const AddressSpace& space, const KnownPage& page,
                            const uint8_t* bytes) {
  PageImport import;
  import.address = page.address;
  import.first = true;
  import.known_mask = KnownLines(page, bytes);
  const MapRegion* region = space.Find(page.address);
  uint64_t offset = 0;
  if (region != nullptr && region->module >= 0 &&
      modules_->Equals(*region, page.address, bytes, &offset)) {
    import.module = region->module;
    import.module_offset = offset;
    log_->Append(count_, import);
    return;
  }
  import.line_mask = NonZeroLines(bytes);
  const std::vector<uint8_t> lines = GatherLines(bytes, import.line_mask);
  import.lines = lines;
  log_->Append(count_, import);
}

void PageImporter::Take(const AddressSpace& space, KnownPage* page, const uint8_t* bytes) {
  const uint64_t changed =
      std::exchange(page->released, false) ? ~uint64_t{0} : ChangedLines(page->host, bytes);
  if (!page->in_segment) {
    LogFirst(space, *page, bytes);
    page->in_segment = true;
  } else if (changed != 0 || page->left) {
    const std::vector<uint8_t> lines = GatherLines(bytes, changed);
    PageImport import;
    import.address = page->address;
    import.line_mask = changed;
    import.lines = lines;
    import.known_mask = KnownLines(*page, bytes) & changed;
    log_->Append(count_, import);
  }
  page->left = false;
  witnesses_->SetNewest(page->address, who_, page->host);
  if (changed == 0) return;
  ++changes_;
  std::memcpy(page->host, bytes, kPageBytes);
  if (page->pristine != nullptr) page->SavePristine();
  if (page->maybe_code) cpu_->ContentsChanged(page->address);
}

bool PageImporter::Import(const AddressSpace& space, const MapRegion& region, KnownPage* page) {
  scratch_.resize(std::max<size_t>(scratch_.size(), kPageBytes));
  if (!memory_->Read(page->address, absl::MakeSpan(scratch_.data(), kPageBytes))) return false;
  Describe(space, region, page);
  Take(space, page, scratch_.data());
  return true;
}

std::vector<KnownPage*> PageImporter::ImportAll(const AddressSpace& space,
                                                absl::Span<KnownPage* const> unordered) {
  scratch_.resize(std::max<size_t>(scratch_.size(), kFetchPages * kPageBytes));
  // Neighbours are read together.
  std::vector<KnownPage*> pages(unordered.begin(), unordered.end());
  std::sort(pages.begin(), pages.end(),
            [](const KnownPage* a, const KnownPage* b) { return a->address < b->address; });
  std::vector<KnownPage*> unreadable;
  std::vector<MemoryPiece> pieces;
  for (size_t first = 0; first < pages.size();) {
    const size_t batch = std::min(kFetchPages, pages.size() - first);
    pieces.clear();
    for (size_t i = 0; i < batch; ++i) {
      pieces.push_back({pages[first + i]->address, &scratch_[i * kPageBytes], kPageBytes});
    }
    const size_t got = memory_->ReadPieces(pieces);
    for (size_t i = 0; i < got; ++i) Take(space, pages[first + i], &scratch_[i * kPageBytes]);
    first += got;
    if (got < batch) unreadable.push_back(pages[first++]);
  }
  return unreadable;
}

void PageImporter::Confirm(const AddressSpace& space, absl::Span<KnownPage* const> pages) {
  for (KnownPage* page : ImportAll(space, pages)) Leave(page);
}

void PageImporter::Leave(KnownPage* page) {
  if (page->left && !others_import_) return;  // another thread may have imported it since
  page->left = true;
  log_->Append(count_, PageLeft{page->address});
}

}  // namespace hindsight
