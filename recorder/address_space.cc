#include "recorder/address_space.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

bool SameFile(const MapRegion& a, const MapRegion& b) {
  return a.inode == b.inode && a.device_major == b.device_major && a.device_minor == b.device_minor;
}

// Whether both show some page of the same file.
bool Overlap(const MapRegion& a, const MapRegion& b) {
  return SameFile(a, b) && a.file_offset < b.file_offset + (b.end - b.start) &&
         b.file_offset < a.file_offset + (a.end - a.start);
}

bool IsDevice(const MapRegion& region) {
  return absl::StartsWith(region.name, "/dev/") && !absl::StartsWith(region.name, "/dev/shm/") &&
         !absl::StartsWith(region.name, "/dev/zero");
}

// Files of the system's that are mapped everywhere, like locale archives.
bool IsSystemFile(const MapRegion& region) {
  return (region.protection & PROT_WRITE) == 0 &&
         (absl::StartsWith(region.name, "/usr/") || absl::StartsWith(region.name, "/lib"));
}

bool MayWrite(const std::string& maps_path, const MapRegion& wanted) {
  const MemoryMap map = MemoryMap::OfProcess(maps_path);
  for (const MapRegion& region : map.regions()) {
    if (region.shared && SameFile(region, wanted) && (region.protection & PROT_WRITE) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

AddressSpace::AddressSpace(MemoryMap map,
                           const std::function<bool(const MapRegion& region)>& changed_elsewhere)
    : map_(std::move(map)) {
  const std::vector<MapRegion>& regions = map_.regions();
  for (size_t i = 0; i < regions.size(); ++i) {
    if (!regions[i].shared) continue;
    has_shared_ = true;
    bool uncached = IsDevice(regions[i]) || changed_elsewhere(regions[i]);
    for (size_t j = 0; j < regions.size() && !uncached; ++j) {
      uncached = i != j && regions[j].shared && Overlap(regions[i], regions[j]) &&
                 ((regions[i].protection | regions[j].protection) & PROT_WRITE) != 0;
    }
    if (!uncached) continue;
    uncached_.resize(regions.size());
    uncached_[i] = true;
  }
}

bool IsMappedElsewhere(const MapRegion& region, const std::function<bool(pid_t)>& recorded) {
  if (IsSystemFile(region)) return false;
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), closedir);
  if (processes == nullptr) return true;
  while (const dirent* entry = readdir(processes.get())) {
    const pid_t pid = static_cast<pid_t>(strtol(entry->d_name, nullptr, 10));
    if (pid <= 0 || recorded(pid)) continue;
    if (MayWrite(absl::StrCat("/proc/", pid, "/maps"), region)) return true;
  }
  return false;
}

}  // namespace hindsight
