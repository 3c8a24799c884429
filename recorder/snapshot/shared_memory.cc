#include "recorder/snapshot/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "recorder/log/opened_modules.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/populated_pages.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// Reading a device may do something.
bool IsDevice(const MapRegion& region) {
  return absl::StartsWith(region.name, "anon_inode:") || absl::StartsWith(region.name, "[") ||
         (absl::StartsWith(region.name, "/dev/") && !absl::StartsWith(region.name, "/dev/shm/") &&
          !absl::StartsWith(region.name, "/dev/zero"));
}

// Private memory without a file that is not the program's: [vvar], [vdso], [uprobes].
bool IsOfKernel(const MapRegion& region) {
  return absl::StartsWith(region.name, "[v") || region.name == "[uprobes]";
}

// The files that have code in a mapping: those are not written while they are used.
std::set<std::pair<uint64_t, uint64_t>> FilesOfCode(const MemoryMap& map) {
  std::set<std::pair<uint64_t, uint64_t>> files;
  for (const MapRegion& region : map.regions()) {
    if ((region.protection & PROT_EXEC) != 0) files.emplace(region.device_minor, region.inode);
  }
  return files;
}

// Whether others may store to the file of a private mapping, whose pages show that.
bool MayChange(const MapRegion& region, const std::string& root) {
  if (region.shared || region.protection == 0 || !MayBeStored(region)) return false;
  const std::shared_ptr<const ModuleFile> file = OpenedModules().Find(region, root);
  return file != nullptr && file->MayChange();
}

}  // namespace

bool SharedMemory::PlanRange(uint64_t start, uint64_t end, std::vector<Chunk>* chunks) {
  const uint64_t last = std::min(end, start + room_ / kPageBytes * kPageBytes);
  if (start < last && !pieces_.Reserve(start, last, chunks)) return false;
  room_ -= last - start;
  return last == end;
}

SharedMemory SharedMemory::Plan(pid_t process, uint64_t most_bytes, BlockPool* pool) {
  SharedMemory shared;
  shared.pieces_ = MemoryPieces(pool);
  shared.room_ = most_bytes;
  PopulatedPages populated(absl::StrCat("/proc/", process, "/pagemap"));
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  const auto code = FilesOfCode(map);
  const std::string root = absl::StrCat("/proc/", process, "/root");
  for (const MapRegion& region : map.regions()) {
    const bool is_shared = region.shared && region.protection != 0 && !IsDevice(region);
    if (!is_shared &&
        (code.contains({region.device_minor, region.inode}) || !MayChange(region, root))) {
      continue;
    }
    const auto ranges = populated.Find(region.start, region.end);
    if (!ranges.has_value()) continue;
    for (const PopulatedRange& range : *ranges) {
      if (is_shared || !range.own_copy) {
        shared.PlanRange(range.start, range.end, &shared.planned_);
      }
    }
  }
  return shared;
}

void SharedMemory::Read(pid_t process) { pieces_.Read(process, planned_); }

void SharedMemory::ReadWithheld(pid_t process, pid_t copy) {
  const MemoryMap all = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  const MemoryMap copied = MemoryMap::OfProcess(absl::StrCat("/proc/", copy, "/maps"));
  PopulatedPages own(absl::StrCat("/proc/", process, "/pagemap"));
  PopulatedPages given(absl::StrCat("/proc/", copy, "/pagemap"));
  for (const MapRegion& region : all.regions()) {
    if (region.name == "[vsyscall]") continue;
    const bool readable = !region.shared && region.inode == 0 && !IsOfKernel(region);
    const bool mapped = copied.Find(region.start) != nullptr;
    // The kernel gives a child all pages of such memory, or, if it is to be wiped, none.
    const bool wiped = mapped && readable && !given.HasContents(region.start, region.end) &&
                       own.HasContents(region.start, region.end);
    if (mapped && !wiped) continue;
    withheld_.push_back({region, mapped, readable && ReadRegion(process, region)});
  }
}

bool SharedMemory::ReadRegion(pid_t process, const MapRegion& region) {
  PopulatedPages populated(absl::StrCat("/proc/", process, "/pagemap"));
  const auto ranges = populated.Find(region.start, region.end);
  if (!ranges.has_value()) return false;
  bool all = true;
  std::vector<Chunk> chunks;
  for (const PopulatedRange& range : *ranges) {
    if (range.end - range.start > room_) return false;
    all = PlanRange(range.start, range.end, &chunks) && all;
  }
  return pieces_.Read(process, chunks) && all;
}

}  // namespace hindsight
