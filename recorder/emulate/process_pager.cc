#include "recorder/emulate/process_pager.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "base/check.h"
#include "recorder/log/page_diff.h"

namespace hindsight {
namespace {

// A page first asked for is kept for this many resyncs; at most for kMaxGrant.
constexpr uint8_t kFirstGrant = 4;
constexpr uint8_t kMaxGrant = 64;

// Pages looked at for each one that is sampled.
constexpr size_t kSampleLooks = 8;

uint32_t NeededProtection(Access access) {
  switch (access) {
    case Access::kRead:
      return PROT_READ;
    case Access::kWrite:
      return PROT_WRITE;
    case Access::kExecute:
      return PROT_EXEC;
  }
  return PROT_NONE;
}

// Memory that the kernel itself changes, or shows on a page of its own ([vvar]).
bool IsKernels(const MapRegion& region) {
  return absl::StartsWith(region.name, "[") && region.name != "[heap]" &&
         !absl::StartsWith(region.name, "[stack") && !absl::StartsWith(region.name, "[anon");
}

// Chunks without pages that are kept: Unicorn takes two milliseconds to forget one.
constexpr size_t kSpareChunks = 16;

uint64_t ChunkOf(uint64_t page) { return page & ~(View::kChunkBytes - 1); }

}  // namespace

void ProcessPager::Grant::Renew() {
  size = size == 0 ? kFirstGrant : std::min<int>(kMaxGrant, size * 2);
  left = size;
}

bool ProcessPager::Grant::Use() {
  if (left == 0) return false;
  --left;
  return true;
}

ProcessPager::Page* ProcessPager::Lookup(uint64_t address) {
  std::unique_ptr<Page>& page = pages_[address];
  if (page == nullptr) {
    page = std::make_unique<Page>();
    page->address = address;
    page->host = cpu_->HostPage(address);
    page->in_segment = page->released = released_.erase(address) > 0;
    ++chunk_pages_[ChunkOf(address)];
  }
  return page.get();
}

ProcessPager::~ProcessPager() { Leave(); }

bool ProcessPager::OnMissing(uint64_t address, Access access) {
  const MapRegion* region = space_->Find(address);
  if (region == nullptr || (region->protection & NeededProtection(access)) == 0) return false;
  if (!uncached_open_ && space_->uncached(*region)) return false;
  Page* page = Lookup(address);
  if (page->host == nullptr) return false;  // above all user memory
  if (page->held) return true;              // held as data; now executed, and may be
  scratch_.resize(std::max(scratch_.size(), kPageBytes));
  if (!tracee_->memory().Read(address, absl::MakeSpan(scratch_.data(), kPageBytes))) return false;

  Describe(page, *region);
  Import(page, scratch_.data());
  Hold(page);
  if (access == Access::kWrite) {
    MarkDirty(page);
    cpu_->SetRights(address, PageRights::kReadWrite);
  } else {
    cpu_->SetRights(address, PageRights::kRead);
  }
  return true;
}

void ProcessPager::Hold(Page* page) {
  page->held = true;
  page->keep.Renew();
  if (page->shared) ++shared_held_;
  if (page->sealed) return;
  unsealed_.push_back(page);
  if (Watched(*page)) watched_.push_back(page);
}

void ProcessPager::Describe(Page* page, const MapRegion& region) {
  page->maybe_code = page->maybe_code || (region.protection & PROT_EXEC) != 0;
  page->shared = region.shared;
  page->backing = BackingOf(region, page->address);
  page->follows = page->backing.follows;
  const bool elf = modules_->IsElf(region);
  page->sealed = !region.shared && !page->follows && (region.protection & PROT_WRITE) == 0 &&
                 (elf || region.name == "[vdso]");
  page->of_file = !region.shared && region.inode != 0 && !elf;
  page->of_others = region.inode != 0 || IsKernels(region);
  page->copied = false;
}

bool ProcessPager::OnFirstWrite(uint64_t address) {
  const MapRegion* region = space_->Find(address);
  if (region == nullptr || (region->protection & PROT_WRITE) == 0) return false;
  MarkDirty(Lookup(address));
  return true;
}

bool ProcessPager::MayExecute(uint64_t address) {
  const MapRegion* region = space_->Find(address);
  return region != nullptr && (region->protection & PROT_EXEC) != 0;
}

void ProcessPager::MarkDirty(Page* page) {
  if (page->dirty) return;
  page->dirty = page->written = true;
  page->discarded = false;
  page->stay_writable.Renew();
  if (page->shared || careful_) SavePristine(page);
  dirty_.push_back(page);
  const bool shared = page->shared || witnesses_->HasSeveral(page->address);
  if (note_writes_ == NoteWrites::kAll || (note_writes_ == NoteWrites::kShared && shared)) {
    noted_writes_.push_back({page->address, cpu_->count()});
  }
}

void ProcessPager::SavePristine(Page* page) {
  if (page->pristine == nullptr) {
    page->pristine = std::make_unique<std::array<uint8_t, kPageBytes>>();
  }
  std::memcpy(page->pristine->data(), page->host, kPageBytes);
}

void ProcessPager::BeCareful() {
  if (std::exchange(careful_, true)) return;
  for (Page* page : dirty_) SavePristine(page);
  for (const auto& [address, page] : pages_) {
    if (page->in_segment || page->written) witnesses_->Testify(address, this, page->host);
  }
}

uint64_t ProcessPager::KnownLines(const Page& page, const uint8_t* bytes) const {
  return witnesses_->enabled() ? witnesses_->KnownLines(page.address, this, bytes) : 0;
}

void ProcessPager::LogFirst(const Page& page, const uint8_t* bytes) {
  PageImport import;
  import.address = page.address;
  import.first = true;
  import.known_mask = KnownLines(page, bytes);
  const MapRegion* region = space_->Find(page.address);
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

void ProcessPager::Import(Page* page, const uint8_t* bytes) {
  const uint64_t changed =
      std::exchange(page->released, false) ? ~uint64_t{0} : ChangedLines(page->host, bytes);
  if (!page->in_segment) {
    LogFirst(*page, bytes);
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
  witnesses_->Testify(page->address, this, page->host);
  if (changed == 0) return;
  ++changes_;
  std::memcpy(page->host, bytes, kPageBytes);
  if (page->pristine != nullptr) SavePristine(page);
  if (page->maybe_code) cpu_->ContentsChanged(page->address);
}

void ProcessPager::AppendChanges(Page* page, bool others_store,
                                 std::vector<MemoryPiece>* pieces) const {
  if (page->pristine == nullptr) {
    pieces->push_back({page->address, page->host, kPageBytes});
    return;
  }
  const uint8_t* before = page->pristine->data();
  uint64_t lines = ChangedLines(before, page->host);
  if (!others_store && !page->shared && lines != 0) {
    const int first = std::countr_zero(lines), last = 63 - std::countl_zero(lines);
    pieces->push_back({page->address + first * kLineBytes, page->host + first * kLineBytes,
                       (last - first + 1) * kLineBytes});
    return;
  }
  for (; lines != 0; lines &= lines - 1) {
    const uint64_t line = std::countr_zero(lines) * kLineBytes;
    for (uint64_t i = line; i < line + kLineBytes;) {
      const uint64_t start = i;
      while (i < line + kLineBytes && before[i] != page->host[i]) ++i;
      if (i > start) pieces->push_back({page->address + start, page->host + start, i - start});
      while (i < line + kLineBytes && before[i] == page->host[i]) ++i;
    }
  }
}

bool ProcessPager::WriteBack(bool others_store) {
  if (dirty_.empty()) return true;
  std::vector<MemoryPiece> pieces;
  pieces.reserve(dirty_.size());
  // Neighbours are moved together.
  std::sort(dirty_.begin(), dirty_.end(),
            [](const Page* a, const Page* b) { return a->address < b->address; });
  for (Page* page : dirty_) AppendChanges(page, others_store || written_elsewhere_, &pieces);
  const bool written = tracee_->Commit(pieces, cpu_->registers());

  std::vector<uint64_t> protect;
  auto clean = [&](Page* page) {
    page->copied |= page->pristine == nullptr;  // then all of it was written
    witnesses_->Testify(page->address, this, page->host);
    if (!page->shared && note_writes_ == NoteWrites::kNone && page->stay_writable.Use()) {
      if (careful_) SavePristine(page);
      return false;
    }
    page->dirty = false;
    page->pristine.reset();
    protect.push_back(page->address);
    return true;
  };
  dirty_.erase(std::remove_if(dirty_.begin(), dirty_.end(), clean), dirty_.end());
  cpu_->ProtectWrites(protect);
  return written;
}

void ProcessPager::Drop(absl::Span<Page* const> pages) {
  if (pages.empty()) return;
  std::vector<uint64_t> addresses;
  addresses.reserve(pages.size());
  for (Page* page : pages) {
    if (!page->held) continue;  // named twice
    addresses.push_back(page->address);
    page->held = page->dirty = false;
    page->pristine.reset();
    if (page->shared) --shared_held_;
  }
  auto gone = [](const Page* page) { return !page->held; };
  unsealed_.erase(std::remove_if(unsealed_.begin(), unsealed_.end(), gone), unsealed_.end());
  watched_.erase(std::remove_if(watched_.begin(), watched_.end(), gone), watched_.end());
  dirty_.erase(std::remove_if(dirty_.begin(), dirty_.end(), gone), dirty_.end());
  cpu_->DropRights(addresses);
}

void ProcessPager::Refresh(absl::Span<Page* const> pages) { Drop(Fetch(pages)); }

void ProcessPager::ResyncPages(absl::Span<const uint64_t> pages) {
  std::vector<Page*> held, sealed;
  for (const uint64_t address : pages) {
    const auto it = pages_.find(address);
    if (it == pages_.end() || !it->second->in_segment) continue;
    (it->second->held ? held : sealed).push_back(it->second.get());
  }
  Refresh(held);
  Confirm(sealed);
}

ProcessPager::Knowledge ProcessPager::KnowledgeOf(uint64_t address) const {
  const auto it = pages_.find(address);
  if (it == pages_.end() || !it->second->in_segment) return Knowledge::kNone;
  return it->second->left ? Knowledge::kLeft : Knowledge::kKnown;
}

bool ProcessPager::ReadKnown(uint64_t address, absl::Span<uint8_t> out) const {
  while (!out.empty()) {
    const uint64_t offset = address % kPageBytes;
    if (KnowledgeOf(address - offset) != Knowledge::kKnown) return false;
    const size_t here = std::min<size_t>(out.size(), kPageBytes - offset);
    std::memcpy(out.data(), pages_.find(address - offset)->second->host + offset, here);
    out.remove_prefix(here);
    address += here;
  }
  return true;
}

std::vector<uint64_t> ProcessPager::SomeWrittenPages(size_t number) {
  std::vector<uint64_t> pages;
  const size_t looks = std::min(unsealed_.size(), kSampleLooks * number);
  for (size_t i = 0; i < looks && pages.size() < number; ++i) {
    if (++next_sample_ >= unsealed_.size()) next_sample_ = 0;
    if (unsealed_[next_sample_]->written) pages.push_back(unsealed_[next_sample_]->address);
  }
  return pages;
}

bool ProcessPager::IsUncached(uint64_t address) const {
  const MapRegion* region = space_->Find(address);
  return region != nullptr && space_->uncached(*region);
}

void ProcessPager::CloseUncached() {
  uncached_open_ = false;
  std::vector<Page*> drop;
  for (Page* page : unsealed_) {
    if (IsUncached(page->address)) drop.push_back(page);
  }
  Drop(drop);
  for (Page* page : drop) Leave(page);
}

bool ProcessPager::Rollback() {
  std::vector<uint64_t> protect;
  for (Page* page : dirty_) {
    std::vector<uint8_t> contents(kPageBytes);
    if (page->pristine != nullptr) {
      std::memcpy(contents.data(), page->pristine->data(), kPageBytes);
    } else if (!tracee_->memory().Read(page->address, absl::MakeSpan(contents))) {
      return false;
    }
    page->dirty = false;
    page->pristine.reset();
    protect.push_back(page->address);
    if (std::memcmp(page->host, contents.data(), kPageBytes) == 0) continue;
    std::memcpy(page->host, contents.data(), kPageBytes);
    if (page->maybe_code) cpu_->ContentsChanged(page->address);
  }
  dirty_.clear();
  cpu_->ProtectWrites(protect);
  return true;
}

std::vector<uint64_t> ProcessPager::DirtyPages() const {
  std::vector<uint64_t> addresses;
  addresses.reserve(dirty_.size());
  for (const Page* page : dirty_) addresses.push_back(page->address);
  return addresses;
}

uint64_t ProcessPager::segment_pages() const {
  return std::count_if(pages_.begin(), pages_.end(),
                       [](const auto& page) { return page.second->in_segment; });
}

// Pages that the segment before did not touch are not remembered any longer.
void ProcessPager::StartSegment() {
  std::vector<Page*> held, unused;
  for (const auto& [address, page] : pages_) {
    if (!page->in_segment) unused.push_back(page.get());
    page->in_segment = page->left = page->released = false;
    if (page->held) held.push_back(page.get());
  }
  Drop(held);
  released_.clear();
  Release(unused, /*gone=*/false);
}

// Forgets pages that are not held, and gives back their memory. `gone`: they are mapped no more.
void ProcessPager::Release(absl::Span<Page* const> pages, bool gone) {
  if (pages.empty()) return;
  std::vector<uint64_t> addresses;
  for (const Page* page : pages) {
    witnesses_->Forget(page->address, this, page->written && !gone);
    if (page->in_segment) released_.insert(page->address);
    addresses.push_back(page->address);
    const uint64_t chunk = ChunkOf(page->address);
    if (--chunk_pages_[chunk] == 0) empty_chunks_.push_back(chunk);
  }
  for (const uint64_t address : addresses) pages_.erase(address);
  cpu_->Release(addresses);
  for (; empty_chunks_.size() > kSpareChunks; empty_chunks_.pop_front()) {
    const auto chunk = chunk_pages_.find(empty_chunks_.front());
    if (chunk == chunk_pages_.end() || chunk->second > 0) continue;  // in use again
    cpu_->ReleaseChunk(chunk->first);
    chunk_pages_.erase(chunk);
  }
}

void ProcessPager::Reset() {
  StartSegment();
  space_ = std::make_shared<AddressSpace>();
  space_version_ = 0;
  careful_ = false;
  for (const auto& [address, page] : pages_) {
    page->keep = page->stay_writable = Grant();
    page->written = false;
  }
}

void ProcessPager::Leave() {
  for (const auto& [address, page] : pages_) {
    // What the kernel stored for it counts, too: no other thread has seen it.
    const bool keep = page->written || (page->in_segment && !page->sealed);
    witnesses_->Forget(address, this, keep);
  }
  pages_.clear();
  chunk_pages_.clear();
  empty_chunks_.clear();
  released_.clear();
  unsealed_.clear();
  watched_.clear();
  dirty_.clear();
}

ProcessPager::Backing ProcessPager::BackingOf(const MapRegion& region, uint64_t page) const {
  return {.protection = region.protection,
          .device_major = region.device_major,
          .device_minor = region.device_minor,
          .inode = region.inode,
          .file_offset = region.inode == 0 ? 0 : region.file_offset + (page - region.start),
          .shared = region.shared,
          .uncached = space_->uncached(region),
          .follows = space_->follows(region)};
}

std::vector<ProcessPager::Page*> ProcessPager::PagesWithin(
    absl::Span<const AddressSpace::Range> ranges) {
  std::vector<Page*> pages;
  uint64_t looks = 0;
  for (const AddressSpace::Range& range : ranges) {
    looks += std::min(pages_.size() + 1, (range.end - range.start) / kPageBytes);
  }
  if (looks <= pages_.size()) {
    for (const AddressSpace::Range& range : ranges) {
      for (uint64_t at = range.start; at < range.end; at += kPageBytes) {
        if (const auto it = pages_.find(at); it != pages_.end()) pages.push_back(it->second.get());
      }
    }
    std::sort(pages.begin(), pages.end(),
              [](const Page* a, const Page* b) { return a->address < b->address; });
    pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
    return pages;
  }
  for (const auto& [address, page] : pages_) {
    const auto holds = [at = address](const AddressSpace::Range& range) {
      return range.start <= at && at < range.end;
    };
    if (std::any_of(ranges.begin(), ranges.end(), holds)) pages.push_back(page.get());
  }
  return pages;
}

void ProcessPager::SetSpace(std::shared_ptr<const AddressSpace> space) {
  if (space == space_ && space->version() == space_version_) return;
  const AddressSpace::Range everything = {0, ~uint64_t{0}};
  const std::vector<AddressSpace::Range> changed =
      space == space_ ? space->ChangedSince(space_version_)
                      : std::vector<AddressSpace::Range>{everything};
  space_ = std::move(space);
  space_version_ = space_->version();
  std::vector<Page*> drop, leave, gone;
  for (Page* page : PagesWithin(changed)) {
    const MapRegion* region = space_->Find(page->address);
    if (region == nullptr) {
      gone.push_back(page);
      if (page->held) drop.push_back(page);
      if (page->in_segment) leave.push_back(page);
      continue;
    }
    if (!page->held || page->backing == BackingOf(*region, page->address)) continue;
    drop.push_back(page);
    if (space_->uncached(*region)) leave.push_back(page);
  }
  Drop(drop);
  for (Page* page : leave) Leave(page);
  Release(gone, /*gone=*/true);
}

}  // namespace hindsight
