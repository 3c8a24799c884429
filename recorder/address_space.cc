#include "recorder/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"

namespace hindsight {
namespace {

using File = std::tuple<uint32_t, uint32_t, uint64_t>;

File FileOf(const MapRegion& region) {
  return {region.device_major, region.device_minor, region.inode};
}

bool SameFile(const MapRegion& a, const MapRegion& b) { return FileOf(a) == FileOf(b); }

uint64_t FileEnd(const MapRegion& region) {
  return region.file_offset + (region.end - region.start);
}

// Whether what is stored there shows in other mappings of the file.
bool WritesFile(const MapRegion& region) {
  return region.shared && (region.protection & PROT_WRITE) != 0;
}

// Of `regions`, of files: calls `mark` with those that write a page of their file which another of
// them shows as well.
void ForSeenTwice(std::vector<const MapRegion*> regions,
                  const std::function<void(const MapRegion&)>& mark) {
  const auto place = [](const MapRegion* region) {
    return std::make_pair(FileOf(*region), region->file_offset);
  };
  std::sort(regions.begin(), regions.end(),
            [&](const MapRegion* a, const MapRegion* b) { return place(a) < place(b); });
  const MapRegion* longest = nullptr;  // of those before it in the file
  for (const MapRegion* region : regions) {
    const bool same = longest != nullptr && SameFile(*longest, *region);
    if (same && WritesFile(*region) && region->file_offset < FileEnd(*longest)) mark(*region);
    if (!same || FileEnd(*longest) < FileEnd(*region)) longest = region;
  }
  for (size_t i = 0; i + 1 < regions.size(); ++i) {
    const MapRegion &region = *regions[i], &next = *regions[i + 1];
    if (WritesFile(region) && SameFile(region, next) && next.file_offset < FileEnd(region)) {
      mark(region);
    }
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
  std::vector<const MapRegion*> of_files;
  absl::flat_hash_set<File> written;
  for (const MapRegion& region : regions) {
    if (!region.shared) continue;
    of_files.push_back(&region);
    if (WritesFile(region)) written.insert(FileOf(region));
    if (IsDevice(region) || changed_elsewhere(region)) mark(region);
  }
  has_shared_ = !of_files.empty();
  for (const MapRegion& region : regions) {
    if (region.shared || region.inode == 0 || !written.contains(FileOf(region))) continue;
    of_files.push_back(&region);
    follows_.resize(regions.size());
    follows_[&region - regions.data()] = true;
  }
  ForSeenTwice(std::move(of_files), mark);
}

}  // namespace hindsight
