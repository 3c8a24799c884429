#include "recorder/translate/stream/segment_pages.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "recorder/log/page_diff.h"

namespace hindsight {
namespace {

// Never kUnknown.
uint64_t HashOf(const uint8_t* bytes) { return XXH3_64bits(bytes, kPageBytes) | 1; }

}  // namespace

void SegmentPages::Begin(uint64_t time, std::shared_ptr<const ExecutedPages> code) {
  if (code != code_) known_code_.clear();
  code_ = std::move(code);
  held_.clear();
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

void SegmentPages::Add(uint64_t count, uint64_t address, const uint8_t* bytes) {
  Import(count, address, bytes, HashOf(bytes), [&] { return PlaceWith(address, bytes); });
}

// What was stored of a module never changes, nor does a page that was published.
void SegmentPages::AddCode(uint64_t count, const ExecutedPages::Published& published) {
  const uint64_t address = published.page->address;
  const uint8_t* const bytes = published.page->bytes.data();
  KnownCode& known = known_code_[address];
  if (known.hash == kUnknown || known.index != published.index) {
    known = {.index = published.index, .hash = HashOf(bytes)};
  }
  Import(count, address, bytes, known.hash, [&] {
    const ModulePlace place = PlaceOf(address);
    if (place != std::exchange(known.compared, place)) {
      known.equals = PlaceWith(address, bytes) == place;
    }
    return known.equals ? place : ModulePlace();
  });
}

void SegmentPages::Import(uint64_t count, uint64_t address, const uint8_t* bytes, uint64_t hash,
                          absl::FunctionRef<ModulePlace()> place_with_bytes) {
  const auto [held, first] = held_.try_emplace(address, hash);
  if (!first && held->second == hash) return;
  held->second = hash;
  PageImport import;
  import.address = address;
  import.first = first;
  std::vector<uint8_t> lines;
  if (const ModulePlace place = place_with_bytes(); place.module >= 0) {
    import.module = place.module;
    import.module_offset = place.offset;
  } else {
    import.line_mask = first ? NonZeroLines(bytes) : ~uint64_t{0};
    lines = GatherLines(bytes, import.line_mask);
    import.lines = lines;
  }
  log_->Append(count, import);
}

void SegmentPages::AddLines(uint64_t count, uint64_t address, uint64_t mask, uint64_t known,
                            absl::Span<const uint8_t> lines) {
  held_[address] = kUnknown;
  PageImport import;
  import.address = address;
  import.line_mask = mask;
  import.known_mask = known & mask;
  import.lines = lines;
  log_->Append(count, import);
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
    if (page.executed || !held_.contains(page.address)) {
      AddCode(count, published);
    }
  }
  added_code_ = batch.end;
}

}  // namespace hindsight
