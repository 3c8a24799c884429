#include "recorder/snapshot/shared_memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_memory.h"
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

}  // namespace

SharedMemory SharedMemory::Plan(pid_t process) {
  SharedMemory shared;
  PopulatedPages populated(absl::StrCat("/proc/", process, "/pagemap"));
  uint64_t room = kMostBytes;
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  for (const MapRegion& region : map.regions()) {
    if (!region.shared || region.protection == 0 || IsDevice(region)) continue;
    const auto ranges = populated.Find(region.start, region.end);
    if (!ranges.has_value()) continue;
    for (PopulatedRange range : *ranges) {
      range.end = std::min(range.end, range.start + room);
      room -= range.end - range.start;
      if (range.start < range.end) shared.planned_.push_back(range);
    }
  }
  shared.bytes_.resize(kMostBytes - room);
  return shared;
}

void SharedMemory::Read(pid_t process) {
  size_t offset = 0;
  for (const PopulatedRange& range : planned_) {
    ReadRange(process, range, offset);
    offset += range.end - range.start;
  }
}

bool SharedMemory::ReadRange(pid_t process, const PopulatedRange& range, size_t offset) {
  std::vector<MemoryPiece> pieces;
  for (uint64_t page = range.start; page < range.end; page += kPageBytes) {
    pieces.push_back({page, bytes_.data() + offset + (page - range.start), kPageBytes});
  }
  const size_t read = ProcessVmMemory(process).ReadPieces(pieces);
  for (size_t i = 0; i < read; ++i) pages_[pieces[i].address] = offset + i * kPageBytes;
  return read == pieces.size();
}

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
  for (const PopulatedRange& range : *ranges) {
    const size_t offset = bytes_.size();
    if (offset + (range.end - range.start) > kMostBytes) return false;
    bytes_.resize(offset + (range.end - range.start));
    if (!ReadRange(process, range, offset)) return false;
  }
  return true;
}

const uint8_t* SharedMemory::Find(uint64_t address) const {
  const auto found = pages_.find(address);
  return found == pages_.end() ? nullptr : bytes_.data() + found->second;
}

std::vector<uint64_t> SharedMemory::PagesIn(uint64_t start, uint64_t end) const {
  std::vector<uint64_t> pages;
  for (auto it = pages_.lower_bound(start); it != pages_.end() && it->first < end; ++it) {
    pages.push_back(it->first);
  }
  return pages;
}

}  // namespace hindsight
