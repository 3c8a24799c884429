#include "recorder/translate/code_source.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/process/memory_map.h"
#include "recorder/translate/agent/layout.h"

namespace hindsight {
namespace {

bool CanChange(const MapRegion& region) {
  return (region.protection & PROT_WRITE) != 0 || region.shared;
}

}  // namespace
CodeSource::CodeSource(pid_t process, OnCode on_code)
    : process_(process), on_code_(std::move(on_code)), memory_(process) {}

const MapRegion* CodeSource::LookUp(uint64_t address) const {
  auto it = std::upper_bound(regions_.begin(), regions_.end(), address,
                             [](uint64_t a, const MapRegion& r) { return a < r.start; });
  if (it == regions_.begin()) return nullptr;
  --it;
  return address < it->end ? &*it : nullptr;
}

const MapRegion* CodeSource::FindRegion(uint64_t address) {
  if (!InWindows(address, address)) return nullptr;
  if (const MapRegion* region = LookUp(address)) return region;
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process_, "/maps"));
  const MapRegion* region = map.Find(address);
  if (region == nullptr || (region->protection & PROT_EXEC) == 0) return nullptr;
  on_code_(*region);
  const auto at = std::upper_bound(regions_.begin(), regions_.end(), region->start,
                                   [](uint64_t a, const MapRegion& r) { return a < r.start; });
  return &*regions_.insert(at, *region);
}

absl::Span<const uint8_t> CodeSource::At(uint64_t pc) {
  const uint64_t number = pc / kPageBytes, start = number * kPageBytes;
  auto it = pages_.find(number);
  if (it == pages_.end()) {
    const MapRegion* region = FindRegion(pc);
    if (region == nullptr) return {};
    auto page = std::make_unique<Page>();
    page->writable = CanChange(*region);
    page->bytes.resize(kPageBytes);
    if (!memory_.Read(start, absl::MakeSpan(page->bytes))) return {};
    const MapRegion* next = FindRegion(start + kPageBytes);
    if (next != nullptr) {
      page->writable |= CanChange(*next);
      page->bytes.resize(2 * kPageBytes);
      if (!memory_.Read(start + kPageBytes, absl::MakeSpan(page->bytes).subspan(kPageBytes))) {
        page->bytes.resize(kPageBytes);
      }
    }
    if (page->writable) writable_.push_back(number);
    it = pages_.emplace(number, std::move(page)).first;
  }
  return absl::MakeConstSpan(it->second->bytes).subspan(pc - start);
}

bool CodeSource::ReadPage(uint64_t page, absl::Span<uint8_t> out) const {
  const auto it = pages_.find(page / kPageBytes);
  if (it == pages_.end()) return InWindows(page, page) && memory_.Read(page, out);
  std::copy_n(it->second->bytes.begin(), kPageBytes, out.begin());
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
  for (const uint64_t number : writable_) pages_.erase(number);
  writable_.clear();
}

void CodeSource::Forget(uint64_t start, uint64_t end) {
  const auto touches = [&](const MapRegion& r) { return r.start < end && start < r.end; };
  regions_.erase(std::remove_if(regions_.begin(), regions_.end(), touches), regions_.end());
  absl::erase_if(pages_, [&](const auto& entry) {
    const uint64_t page = entry.first * kPageBytes;
    return page < end && start < page + entry.second->bytes.size();
  });
}

}  // namespace hindsight
