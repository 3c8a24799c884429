#include "recorder/process/foreign_mappings.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

constexpr uint64_t kLookEveryNs = 500'000'000;

// Files of the system that are mapped everywhere, like locale archives.
bool IsSystemFile(const MapRegion& region) {
  return (region.protection & PROT_WRITE) == 0 &&
         (absl::StartsWith(region.name, "/usr/") || absl::StartsWith(region.name, "/lib"));
}

// mmap with MAP_SHARED | MAP_ANONYMOUS: each has a file of its own in the kernel, that no other
// process can name. Processes that have it inherited it, by fork.
bool HasNoFile(const MapRegion& region) {
  return region.device_major == 0 && region.name == "/dev/zero (deleted)";
}

}  // namespace

ForeignMappings::File ForeignMappings::FileOf(const MapRegion& region) {
  return {region.device_major, region.device_minor, region.inode};
}

void ForeignMappings::Forget() { next_look_ns_ = 0; }

void ForeignMappings::Update(absl::Span<const MapRegion> regions, pid_t process, uint64_t now_ns) {
  bool shared = false;
  bool due = IsDue(now_ns);
  for (const MapRegion& region : regions) {
    if (!region.shared || IsSystemFile(region)) continue;
    shared = true;
    due |= known_.insert(FileOf(region)).second && !HasNoFile(region);
  }
  if (!shared || !due) return;
  Look(process);
  next_look_ns_ = now_ns + kLookEveryNs;
}

void ForeignMappings::Look(pid_t process) {
  absl::flat_hash_set<File> writable;
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), closedir);
  if (processes == nullptr) {
    writable = known_;
  } else {
    while (const dirent* entry = readdir(processes.get())) {
      const pid_t other = static_cast<pid_t>(strtol(entry->d_name, nullptr, 10));
      if (other <= 0 || other == process || recorded_(other)) continue;
      const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", other, "/maps"));
      for (const MapRegion& region : map.regions()) {
        if (!region.shared || (region.protection & PROT_WRITE) == 0) continue;
        if (known_.contains(FileOf(region))) writable.insert(FileOf(region));
      }
    }
  }
  if (writable == writable_) return;
  writable_ = std::move(writable);
  ++version_;
}

bool ForeignMappings::MayWrite(const MapRegion& region) const {
  return !IsSystemFile(region) && writable_.contains(FileOf(region));
}

}  // namespace hindsight
