#include "recorder/emulate/pager/process_pager.h"

#include <sys/mman.h>

#include <utility>

namespace hindsight {
namespace {

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

constexpr auto kAnyPage = [](const KnownPage& page) { return true; };
constexpr auto kCompared = [](const KnownPage& page) { return page.held && !page.sealed; };

}  // namespace

ProcessPager::~ProcessPager() { Leave(); }

// What the Cpu asks for.

bool ProcessPager::OnMissing(uint64_t address, Access access) {
  const MapRegion* region = space_->Find(address);
  if (region == nullptr || (region->protection & NeededProtection(access)) == 0) return false;
  if (!uncached_open_ && space_->uncached(*region)) return false;
  KnownPage* page = outputs_.Lookup(address);
  if (page->host == nullptr) return false;  // above all user memory
  if (page->held) return true;              // held as data; now executed, and may be
  if (!importer_.Import(*space_, *region, page)) return false;
  pages_.Hold(page);
  if (access == Access::kWrite) {
    MarkDirty(page);
    cpu_->SetRights(address, PageRights::kReadWrite);
  } else {
    cpu_->SetRights(address, PageRights::kRead);
  }
  return true;
}

bool ProcessPager::OnFirstWrite(uint64_t address) {
  const MapRegion* region = space_->Find(address);
  if (region == nullptr || (region->protection & PROT_WRITE) == 0) return false;
  MarkDirty(outputs_.Lookup(address));
  return true;
}

bool ProcessPager::MayExecute(uint64_t address) {
  const MapRegion* region = space_->Find(address);
  return region != nullptr && (region->protection & PROT_EXEC) != 0;
}

// What the thread has written.

void ProcessPager::MarkDirty(KnownPage* page) {
  written_.Add(page, cpu_->count(), witnesses_->HasSeveralWitnesses(page->address));
}

void ProcessPager::NoteSiblings() {
  if (std::exchange(has_siblings_, true)) return;
  written_.KeepPristine(true);
  importer_.set_others_import(true);
  for (KnownPage* page : pages_.All(kAnyPage)) {
    if (page->in_segment || page->written) witnesses_->SetNewest(page->address, this, page->host);
  }
}

bool ProcessPager::WriteBack(bool others_store) {
  if (written_.empty()) return true;
  const std::vector<MemoryPiece> pieces =
      written_.Changes(others_store || outputs_.written_elsewhere());
  const bool written = tracee_->Commit(pieces, cpu_->registers());
  cpu_->ProtectWrites(written_.Settle(
      [this](const KnownPage& page) { witnesses_->SetNewest(page.address, this, page.host); }));
  return written;
}

bool ProcessPager::Rollback() {
  const auto clean = written_.Rollback(tracee_->memory(), [this](const KnownPage& page) {
    if (page.maybe_code) cpu_->ContentsChanged(page.address);
  });
  if (!clean.has_value()) return false;
  cpu_->ProtectWrites(*clean);
  return true;
}

// Which pages are in use, and compared.

void ProcessPager::Unseal() {
  if (std::exchange(unsealed_, true)) return;
  importer_.set_seals(false);
  pages_.Unseal();
}

void ProcessPager::Drop(absl::Span<KnownPage* const> pages) {
  if (pages.empty()) return;
  const std::vector<uint64_t> addresses = pages_.LetGo(pages);
  written_.DropClean();
  cpu_->DropRights(addresses);
}

void ProcessPager::Refresh(absl::Span<KnownPage* const> pages) {
  Drop(importer_.ImportAll(*space_, pages));
}

// Pages that have not been used for long are dropped instead.
void ProcessPager::CompareInUse(absl::Span<KnownPage* const> pages) {
  std::vector<KnownPage*> keep, drop;
  for (KnownPage* page : pages) (page->keep.Use() ? keep : drop).push_back(page);
  // FollowOthers takes no notice of pages in use, so these are looked at one more time.
  if (has_siblings_) importer_.Confirm(*space_, drop);
  Drop(drop);
  Refresh(keep);
  for (KnownPage* page : drop) {
    // Other processes write to memory shared with them in their turns.
    if (page->shared || page->discarded) importer_.Leave(page);
  }
}

// Of the pages held those that the call may have changed, and those that others can.
void ProcessPager::CompareOutputs(const SyscallOutputs& effects) {
  // What is there now may show a file, or not any more: that is found out when it is next touched.
  Drop(pages_.In(effects.remapped,
                 [](const KnownPage& page) { return kCompared(page) && !page.watched(); }));
  CompareInUse(std::vector<KnownPage*>(pages_.watched()));
  for (const auto* ranges : {&effects.written, &effects.perhaps_written, &effects.unfilled}) {
    Refresh(pages_.In(*ranges, kCompared));
  }
}

bool ProcessPager::Resync(const SyscallOutputs& effects, Compare compare) {
  bool expected = true;
  if (compare != Compare::kAll) CompareOutputs(effects);
  if (compare != Compare::kOutputs) {
    const uint64_t changes_before = importer_.changes();
    std::vector<KnownPage*> pages = pages_.in_use();
    if (compare == Compare::kProbe) {
      std::erase_if(pages, [](const KnownPage* page) { return page->watched(); });
    }
    CompareInUse(pages);
    expected = compare == Compare::kAll || importer_.changes() == changes_before;
  }
  outputs_.Take(*space_, effects);
  if (!expected) outputs_.TakeUnknown(*space_);
  return expected;
}

void ProcessPager::ResyncPages(absl::Span<const uint64_t> pages) {
  std::vector<KnownPage*> held, others;
  for (const uint64_t address : pages) {
    KnownPage* const page = pages_.Find(address);
    if (page != nullptr && page->in_segment) (page->held ? held : others).push_back(page);
  }
  Refresh(held);
  importer_.Confirm(*space_, others);
}

void ProcessPager::ResyncShared() {
  std::vector<KnownPage*> keep, drop;
  for (KnownPage* page : pages_.in_use()) {
    if (page->shared) (page->keep.Use() ? keep : drop).push_back(page);
  }
  Drop(drop);
  Refresh(keep);
  for (KnownPage* page : drop) importer_.Leave(page);
}

void ProcessPager::ResyncSeenTwice() {
  std::vector<KnownPage*> pages;
  for (KnownPage* page : pages_.in_use()) {
    if (page->shared || page->follows) pages.push_back(page);
  }
  Refresh(pages);
}

void ProcessPager::FollowOthers() {
  if (!witnesses_->enabled()) return;
  const std::vector<KnownPage*> changed = pages_.All([this](const KnownPage& page) {
    return page.believed() && witnesses_->HasNewerWitness(page.address, this, witnessed_) &&
           witnesses_->KnownLines(page.address, this, page.host) != ~uint64_t{0};
  });
  for (KnownPage* page : changed) importer_.Leave(page);
  witnessed_ = witnesses_->time();
}

bool ProcessPager::IsUncached(uint64_t address) const {
  const MapRegion* region = space_->Find(address);
  return region != nullptr && space_->uncached(*region);
}

void ProcessPager::CloseUncached() {
  uncached_open_ = false;
  std::vector<KnownPage*> drop;
  for (KnownPage* page : pages_.in_use()) {
    if (IsUncached(page->address)) drop.push_back(page);
  }
  Drop(drop);
  for (KnownPage* page : drop) importer_.Leave(page);
}

std::vector<MemoryRange> ProcessPager::WritablePages() const {
  std::vector<MemoryRange> pages;
  for (const KnownPage* page : pages_.All(kAnyPage)) {
    const MapRegion* region = space_->Find(page->address);
    if (!page->in_segment && !page->written && !page->left) continue;
    if (region == nullptr || (region->protection & PROT_WRITE) == 0) continue;
    pages.push_back({page->address, kPageBytes});
  }
  return pages;
}

// Segments, address spaces, and the end.

// Pages that the segment before did not touch are not remembered any longer.
void ProcessPager::StartSegment() {
  const auto unused = pages_.All([](const KnownPage& page) { return !page.in_segment; });
  pages_.StartSegment();
  Drop(pages_.All([](const KnownPage& page) { return page.held; }));
  Release(unused, /*gone=*/false);
}

// Forgets pages that are not held, and gives back their memory. `gone`: they are mapped no more.
void ProcessPager::Release(absl::Span<KnownPage* const> pages, bool gone) {
  if (pages.empty()) return;
  std::vector<uint64_t> addresses;
  for (const KnownPage* page : pages) {
    witnesses_->Forget(page->address, this, page->written && !gone);
    addresses.push_back(page->address);
  }
  pages_.Erase(pages);
  cpu_->Release(addresses);
  for (const uint64_t chunk : pages_.TakeEmptyChunks()) cpu_->ReleaseChunk(chunk);
}

void ProcessPager::Reset() {
  StartSegment();
  space_ = std::make_shared<AddressSpace>();
  space_version_ = 0;
  has_siblings_ = false;
  written_.KeepPristine(false);
  importer_.set_others_import(false);
  for (KnownPage* page : pages_.All(kAnyPage)) {
    page->keep = page->stay_writable = PageGrant();
    page->written = false;
  }
}

void ProcessPager::ImportAtEnd(const ProcessMemory* memory, absl::Span<const MemoryRange> words) {
  importer_.set_memory(memory);
  Refresh(pages_.In(words, kCompared));
  outputs_.Take(*space_, {.written = {words.begin(), words.end()}});
}

void ProcessPager::Leave() {
  for (const KnownPage* page : pages_.All(kAnyPage)) {
    // What the kernel stored for it counts, too: no other thread has seen it.
    const bool keep = page->written || (page->in_segment && !page->sealed);
    witnesses_->Forget(page->address, this, keep);
  }
  written_.Clear();
  pages_.Clear();
}

void ProcessPager::SetSpace(std::shared_ptr<const AddressSpace> space) {
  if (space == space_ && space->version() == space_version_) return;
  const AddressSpace::Range everything = {0, ~uint64_t{0}};
  const std::vector<AddressSpace::Range> changed =
      space == space_ ? space->ChangedSince(space_version_)
                      : std::vector<AddressSpace::Range>{everything};
  space_ = std::move(space);
  space_version_ = space_->version();
  std::vector<KnownPage*> drop, leave, gone;
  for (KnownPage* page : pages_.Within(changed)) {
    const MapRegion* region = space_->Find(page->address);
    if (region == nullptr) {
      gone.push_back(page);
      if (page->held) drop.push_back(page);
      if (page->in_segment) leave.push_back(page);
      continue;
    }
    if (!page->held || page->backing == importer_.BackingOf(*space_, *region, page->address)) {
      continue;
    }
    drop.push_back(page);
    if (space_->uncached(*region)) leave.push_back(page);
  }
  Drop(drop);
  for (KnownPage* page : leave) importer_.Leave(page);
  Release(gone, /*gone=*/true);
}

}  // namespace hindsight
