#include "recorder/translate/code_source.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/populated_pages.h"
#include "recorder/translate/base/layout.h"

namespace hindsight {
namespace {

bool CanChange(const MapRegion& region) {
  return (region.protection & PROT_WRITE) != 0 || region.shared;
}

// Pages of what cannot change that are read at once: each read takes longer than what it copies.
constexpr uint64_t kPagesAtOnce = 16;

uint64_t PagesOf(const MapRegion& region) { return (region.end - region.start) / kPageBytes; }

}  // namespace

CodeSource::CodeSource(pid_t process, OnCode on_code, std::shared_ptr<CodeFiles> files)
    : process_(process), on_code_(std::move(on_code)), files_(std::move(files)), memory_(process) {}

CodeSource::Region::Region(const MapRegion& where) : map(where), pages(PagesOf(where) + 1) {}

void CodeSource::Unmap::operator()(uint8_t* start) const { munmap(start, bytes); }

CodeSource::Region* CodeSource::RegionAt(uint64_t address) {
  return const_cast<Region*>(std::as_const(*this).RegionAt(address));
}

const CodeSource::Region* CodeSource::RegionAt(uint64_t address) const {
  auto it = std::upper_bound(regions_.begin(), regions_.end(), address,
                             [](uint64_t a, const auto& r) { return a < r->map.start; });
  if (it == regions_.begin()) return nullptr;
  --it;
  return address < (*it)->map.end ? it->get() : nullptr;
}

const MapRegion* CodeSource::LookUp(uint64_t address) const {
  const Region* const region = RegionAt(address);
  return region == nullptr ? nullptr : &region->map;
}

std::shared_ptr<CodeFile> CodeSource::FileOf(const MapRegion& region) const {
  if (files_ == nullptr) return nullptr;
  const std::string process = absl::StrCat("/proc/", process_);
  std::shared_ptr<CodeFile> file = files_->Find(process + "/root", region);
  if (file == nullptr) return nullptr;
  PopulatedPages pages(process + "/pagemap");
  const auto populated = pages.Find(region.start, region.end);
  const auto is_own = [](const PopulatedRange& range) { return range.own_copy; };
  const bool is_files =
      populated.has_value() && std::none_of(populated->begin(), populated->end(), is_own);
  return is_files ? std::move(file) : nullptr;
}

CodeSource::Region* CodeSource::FindRegion(uint64_t address) {
  if (!InWindows(address, address)) return nullptr;
  if (Region* region = RegionAt(address)) return region;
  const auto found = ReadRegionAt(absl::StrCat("/proc/", process_, "/maps"), address);
  if (!found.has_value() || (found->protection & PROT_EXEC) == 0) return nullptr;
  auto region = std::make_unique<Region>(*found);
  region->file = FileOf(*found);
  on_code_(*found);
  const auto at = std::upper_bound(regions_.begin(), regions_.end(), found->start,
                                   [](uint64_t a, const auto& r) { return a < r->map.start; });
  return regions_.insert(at, std::move(region))->get();
}

bool CodeSource::HasRoom(Region* region) {
  if (region->bytes != nullptr) return true;
  const uint64_t size = region->pages.size() * kPageBytes;
  void* const bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED) return false;
  region->bytes = {static_cast<uint8_t*>(bytes), Unmap{size}};
  return true;
}

bool CodeSource::HasBefore(const Region& region, uint64_t number) {
  return region.before != nullptr && number < PagesOf(region.map) &&
         region.before->pages[number] == PageState::kRead;
}

const uint8_t* CodeSource::Shared(const Region& region, uint64_t number) {
  if (HasBefore(region, number)) return region.before->bytes.get() + number * kPageBytes;
  if (region.pages[number] != PageState::kInFile) return nullptr;
  return region.file->Page(region.map.file_offset / kPageBytes + number);
}

const uint8_t* CodeSource::FindShared(Region* region, uint64_t number) const {
  PageState& state = region->pages[number];
  const bool ask = state == PageState::kNotRead && region->file != nullptr &&
                   number < PagesOf(region->map) && !files_->ended();
  if (!ask || HasBefore(*region, number)) return Shared(*region, number);
  const uint8_t* const page = region->file->Page(region->map.file_offset / kPageBytes + number);
  if (page != nullptr) state = PageState::kInFile;
  return page;
}

void CodeSource::Take(const uint8_t* shared, Region* region, uint64_t number) {
  std::copy_n(shared, kPageBytes, region->bytes.get() + number * kPageBytes);
  region->pages[number] = PageState::kRead;
}

std::shared_ptr<const CodeSource::Region> CodeSource::Share(Region* region) {
  const uint64_t count = PagesOf(region->map);
  if (std::find(region->pages.begin(), region->pages.begin() + static_cast<ptrdiff_t>(count),
                PageState::kRead) == region->pages.begin() + static_cast<ptrdiff_t>(count)) {
    return region->before;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (region->pages[i] == PageState::kRead || !HasBefore(*region, i)) continue;
    Take(Shared(*region, i), region, i);
  }
  auto shared = std::make_shared<Region>(region->map);
  shared->bytes = std::move(region->bytes);
  shared->pages.swap(region->pages);
  region->before = shared;
  return shared;
}

std::vector<MapRegion> CodeSource::Inherit(CodeSource* maker) {
  std::vector<MapRegion> others;
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process_, "/maps"));
  for (const auto& theirs : maker->regions_) {
    // Other memory may be missing or empty in a child, as its maker has asked for (madvise).
    const bool kept = theirs->map.inode != 0 || theirs->map.name == "[vdso]";
    const MapRegion* const here = map.Find(theirs->map.start);
    if (!kept || CanChange(theirs->map) || here == nullptr || *here != theirs->map) {
      others.push_back(theirs->map);
      continue;
    }
    auto region = std::make_unique<Region>(*here);
    region->before = Share(theirs.get());
    region->file = theirs->file;
    on_code_(*here);
    regions_.push_back(std::move(region));
  }
  return others;
}

void CodeSource::ReadAround(Region* region, uint64_t number) {
  const uint64_t first = number / kPagesAtOnce * kPagesAtOnce;
  const uint64_t last = std::min(first + kPagesAtOnce, PagesOf(region->map));
  for (uint64_t i = first; i < last; ++i) {
    if (region->pages[i] != PageState::kNotRead) return;
  }
  uint8_t* const to = region->bytes.get() + first * kPageBytes;
  const absl::Span<uint8_t> out(to, (last - first) * kPageBytes);
  if (!memory_.Read(region->map.start + first * kPageBytes, out)) return;
  for (uint64_t i = first; i < last; ++i) region->pages[i] = PageState::kRead;
}

bool CodeSource::ReadInto(Region* region, uint64_t number) {
  PageState& state = region->pages[number];
  if (state == PageState::kRead || state == PageState::kNone) return state == PageState::kRead;
  if (!HasRoom(region)) return false;
  if (const uint8_t* const known = FindShared(region, number)) Take(known, region, number);
  if (state == PageState::kNotRead && !CanChange(region->map) && number < PagesOf(region->map)) {
    ReadAround(region, number);
  }
  if (state != PageState::kNotRead) return state == PageState::kRead;
  const uint64_t page = region->map.start + number * kPageBytes;
  const Region* const owner = page < region->map.end ? region : FindRegion(page);
  uint8_t* const to = region->bytes.get() + number * kPageBytes;
  const bool read = owner != nullptr && memory_.Read(page, {to, kPageBytes});
  state = read ? PageState::kRead : PageState::kNone;
  if (owner != nullptr && CanChange(owner->map)) writable_.push_back(page);
  return read;
}

absl::Span<const uint8_t> CodeSource::At(uint64_t pc) {
  Region* const region = FindRegion(pc);
  if (region == nullptr) return {};
  const uint64_t offset = pc - region->map.start, number = offset / kPageBytes;
  const uint8_t* const shared = FindShared(region, number);
  if (shared != nullptr && FindShared(region, number + 1) == shared + kPageBytes) {
    return {shared + offset % kPageBytes, 2 * kPageBytes - offset % kPageBytes};
  }
  // Who asks for it may find it now.
  if (region->pages[number] == PageState::kNone) region->pages[number] = PageState::kNotRead;
  if (!ReadInto(region, number)) return {};
  const uint64_t end = (number + (ReadInto(region, number + 1) ? 2 : 1)) * kPageBytes;
  return {region->bytes.get() + offset, end - offset};
}

bool CodeSource::ReadPage(uint64_t page, absl::Span<uint8_t> out) const {
  const Region* const region = RegionAt(page);
  const uint64_t number = region == nullptr ? 0 : (page - region->map.start) / kPageBytes;
  const uint8_t* known = region == nullptr ? nullptr : Shared(*region, number);
  if (known == nullptr && region != nullptr && region->pages[number] == PageState::kRead) {
    known = region->bytes.get() + number * kPageBytes;
  }
  if (known == nullptr) return InWindows(page, page) && memory_.Read(page, out);
  std::copy_n(known, kPageBytes, out.begin());
  return true;
}

bool CodeSource::IsConstant(uint64_t pc) const {
  const MapRegion* region = LookUp(pc);
  return region != nullptr && !CanChange(*region) && pc + kPageBytes < region->end;
}

bool CodeSource::MayChange(uint64_t pc) const {
  for (const uint64_t address : {pc, PageOf(pc) + kPageBytes}) {
    const MapRegion* region = LookUp(address);
    if (region != nullptr && CanChange(*region)) return true;
  }
  return false;
}

void CodeSource::ForgetWritable() {
  for (const uint64_t page : writable_) {
    // In its own region, and after the one before.
    for (const uint64_t address : {page, page - kPageBytes}) {
      Region* const region = RegionAt(address);
      if (region == nullptr) continue;
      region->pages[(page - region->map.start) / kPageBytes] = PageState::kNotRead;
    }
  }
  writable_.clear();
}

bool CodeSource::Forget(uint64_t start, uint64_t end) {
  const auto touches = [&](const auto& r) { return r->map.start < end && start < r->map.end; };
  const size_t forgotten = std::erase_if(regions_, touches);
  for (const auto& region : regions_) {
    if (start <= region->map.end && region->map.end < end)
      region->pages.back() = PageState::kNotRead;
  }
  return forgotten != 0;
}

}  // namespace hindsight
