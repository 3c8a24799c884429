#include "recorder/translate/stream/segment_pages.h"

#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "recorder/log/page_diff.h"

namespace hindsight {
namespace {

// Contents that no file and no thread has given it.
bool IsKernels(const MapRegion& region) {
  return region.name == "[vdso]" || region.name == "[vsyscall]" ||
         absl::StartsWith(region.name, "[vvar");
}

// Never kUnknown.
uint64_t HashOf(const uint8_t* bytes) { return XXH3_64bits(bytes, kPageBytes) | 1; }

}  // namespace

void SegmentPages::Begin(uint64_t time, std::shared_ptr<const ExecutedPages> code) {
  code_ = std::move(code);
  held_.clear();
  direct_ = false;
  added_code_ = 0;
  earlier_code_ = code_ == nullptr ? 0 : code_->size();
  begin_time_ = time;
}

SegmentPages::ModulePlace SegmentPages::PlaceOf(uint64_t address) const {
  const MapRegion* const region = space_->Find(address);
  if (region == nullptr || region->module < 0) return {};
  return {region->module, region->file_offset + (address - region->start)};
}

SegmentPages::ModulePlace SegmentPages::PlaceWith(uint64_t address, const uint8_t* bytes) const {
  const MapRegion* const region = space_->Find(address);
  uint64_t offset = 0;
  if (region == nullptr || region->module < 0 ||
      !modules_->Equals(*region, address, bytes, &offset)) {
    return {};
  }
  return {region->module, offset};
}

void SegmentPages::Add(uint64_t count, uint64_t address, const uint8_t* bytes, uint8_t turn) {
  // Nothing is left out where it is direct.
  const uint64_t hash = direct_ ? kUnknown : HashOf(bytes);
  Import(count, address, bytes, hash, turn, [&] { return PlaceWith(address, bytes); });
}

// Each segment begins with all code. What was stored of a module never changes, nor does a page
// that was published.
void SegmentPages::AddCode(uint64_t count, const ExecutedPage& page) {
  const uint8_t* const bytes = page.bytes.data();
  ExecutedPage::Found& found = page.found;
  if (found.hash == kUnknown) found.hash = HashOf(bytes);
  const auto place_with_bytes = [&] {
    const ModulePlace place = PlaceOf(page.address);
    const auto file = modules_->FileOf(place.module);
    if (file == nullptr) return ModulePlace();
    if (found.file.lock() != file || found.offset != place.offset) {
      found.file = file;
      found.offset = place.offset;
      found.equals = PlaceWith(page.address, bytes).module >= 0;
    }
    return found.equals ? place : ModulePlace();
  };
  // What the thread has stored itself a replay stores as well.
  if (direct_ && place_with_bytes().module < 0) return;
  Import(count, page.address, bytes, found.hash, PageImport::kFirstTurn, place_with_bytes);
}

void SegmentPages::Import(uint64_t count, uint64_t address, const uint8_t* bytes, uint64_t hash,
                          uint8_t turn, absl::FunctionRef<ModulePlace()> place_with_bytes) {
  const auto [held, first] = held_.try_emplace(address, hash);
  // What the thread has stored itself since, where nobody looks, is not known here.
  if (!first && held->second == hash && !direct_) return;
  held->second = hash;
  PageImport import;
  import.address = address;
  import.first = first;
  import.turn = turn;
  std::vector<uint8_t> lines;
  if (const ModulePlace place = place_with_bytes(); place.module >= 0) {
    import.module = place.module;
    import.module_offset = place.offset;
  } else {
    import.line_mask = first ? NonZeroLines(bytes) : ~uint64_t{0};
    if (import.line_mask == ~uint64_t{0}) {
      import.lines = {bytes, kPageBytes};
    } else {
      import.lines = lines = GatherLines(bytes, import.line_mask);
    }
  }
  log_->Append(count, import);
}

void SegmentPages::AddLines(uint64_t count, const PageImport& import) {
  held_[import.address] = kUnknown;
  log_->Append(count, import);
}

// Whether a page that nobody has stored to is known: zeros, or what is stored of the file.
bool SegmentPages::IsAsMapped(const MapRegion& region) const {
  constexpr char kZeros[] = "/dev/zero";
  if (region.module >= 0) return modules_->Unchanged(region);
  return region.inode == 0 || region.name == kZeros;
}

void SegmentPages::AddMapped(uint64_t count, uint64_t start, uint64_t end, bool begins) {
  direct_ = true;
  if (!begins) {
    absl::erase_if(held_,
                   [=](const auto& page) { return page.first >= start && page.first < end; });
  }
  const MemoryMap map = space_->map();
  for (const MapRegion& region : map.regions()) {
    const uint64_t from = std::max(start, region.start), to = std::min(end, region.end);
    if (from >= to || IsKernels(region) || !IsAsMapped(region)) continue;
    // The thread does not say what it cannot read.
    if (region.protection == PROT_NONE) continue;
    log_->Append(
        count, MappedRange{.address = from,
                           .bytes = to - from,
                           .module = region.module,
                           .module_offset =
                               region.module < 0 ? 0 : region.file_offset + (from - region.start)});
  }
}

void SegmentPages::AddUsed(uint64_t count, absl::Span<const uint64_t> pages, bool all) {
  log_->Append(count, UsedPages{.complete = all, .pages = pages});
}

void SegmentPages::Share() {
  direct_ = false;
  for (auto& [address, hash] : held_) hash = kUnknown;
}

void SegmentPages::AddCodeAsItIs(uint64_t count, absl::FunctionRef<bool(uint64_t, uint8_t*)> read) {
  if (code_ == nullptr) return;
  const ExecutedPages::Batch batch = code_->Since(0);
  for (const ExecutedPages::Published& published : batch.pages) {
    if (!published.IsValid(begin_time_)) continue;
    const ExecutedPage& page = *published.page;
    uint8_t bytes[kPageBytes];
    Add(count, page.address, read(page.address, bytes) ? bytes : page.bytes.data());
  }
  added_code_ = batch.end;
}

void SegmentPages::AddNewCode(uint64_t count) {
  const ExecutedPages::Batch batch = code_->Since(added_code_);
  for (const ExecutedPages::Published& published : batch.pages) {
    // What had changed before the segment began is not executed in it.
    if (published.index < earlier_code_ && !published.IsValid(begin_time_)) continue;
    const ExecutedPage& page = *published.page;
    if ((page.executed && !direct_) || !held_.contains(page.address)) AddCode(count, page);
  }
  added_code_ = batch.end;
}

}  // namespace hindsight
