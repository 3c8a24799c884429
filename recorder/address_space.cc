#include "recorder/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"

namespace hindsight {
namespace {

bool SameFile(const MapRegion& a, const MapRegion& b) {
  return a.inode == b.inode && a.device_major == b.device_major && a.device_minor == b.device_minor;
}

uint64_t FileEnd(const MapRegion& region) {
  return region.file_offset + (region.end - region.start);
}

bool IsWritable(const MapRegion& region) { return (region.protection & PROT_WRITE) != 0; }

// Of `shared`, the regions mapped MAP_SHARED: calls `mark` with those that show a page which
// another of them shows as well, if either is writable.
void ForSeenTwice(std::vector<const MapRegion*> shared,
                  const std::function<void(const MapRegion&)>& mark) {
  const auto place = [](const MapRegion* region) {
    return std::tie(region->device_major, region->device_minor, region->inode, region->file_offset);
  };
  std::sort(shared.begin(), shared.end(),
            [&](const MapRegion* a, const MapRegion* b) { return place(a) < place(b); });
  const MapRegion* longest = nullptr;  // of those before it in the file
  const MapRegion* longest_writable = nullptr;
  const auto reaches = [](const MapRegion* before, const MapRegion& region) {
    return before != nullptr && SameFile(*before, region) && region.file_offset < FileEnd(*before);
  };
  const auto longer = [](const MapRegion* before, const MapRegion& region) {
    return before == nullptr || !SameFile(*before, region) || FileEnd(*before) < FileEnd(region);
  };
  for (const MapRegion* region : shared) {
    if (reaches(IsWritable(*region) ? longest : longest_writable, *region)) mark(*region);
    if (longer(longest, *region)) longest = region;
    if (IsWritable(*region) && longer(longest_writable, *region)) longest_writable = region;
  }
  const MapRegion* next = nullptr;  // behind it in the file
  const MapRegion* next_writable = nullptr;
  for (auto it = shared.rbegin(); it != shared.rend(); ++it) {
    const MapRegion& region = **it;
    const MapRegion* const after = IsWritable(region) ? next : next_writable;
    if (after != nullptr && reaches(&region, *after)) mark(region);
    next = &region;
    if (IsWritable(region)) next_writable = &region;
  }
}

bool IsDevice(const MapRegion& region) {
  return absl::StartsWith(region.name, "/dev/") && !absl::StartsWith(region.name, "/dev/shm/") &&
         !absl::StartsWith(region.name, "/dev/zero");
}

}  // namespace

AddressSpace::AddressSpace(MemoryMap map,
                           const std::function<bool(const MapRegion& region)>& changed_elsewhere)
    : map_(std::move(map)) {
  const std::vector<MapRegion>& regions = map_.regions();
  const auto mark = [&](const MapRegion& region) {
    uncached_.resize(regions.size());
    uncached_[&region - regions.data()] = true;
  };
  std::vector<const MapRegion*> shared;
  for (const MapRegion& region : regions) {
    if (!region.shared) continue;
    shared.push_back(&region);
    if (IsDevice(region) || changed_elsewhere(region)) mark(region);
  }
  has_shared_ = !shared.empty();
  ForSeenTwice(std::move(shared), mark);
}

}  // namespace hindsight
