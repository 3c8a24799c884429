#include "recorder/snapshot/wanted_memory.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "recorder/process/process_memory.h"
#include "recorder/symbols/symbols.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kRedZone = 128;  // below the stack pointer
// What lies above the stack pointer in one mapping may be more than a stack.
constexpr uint64_t kLongestStack = uint64_t{16} << 20;
constexpr int kMostLibraries = 4096;
constexpr uint64_t kLongestPath = 4096;

template <typename T>
bool ReadValue(const ProcessMemory& memory, uint64_t address, T* value) {
  return memory.Read(address, {reinterpret_cast<uint8_t*>(value), sizeof(*value)});
}

// Of the program's dynamic section (DT_DEBUG); 0: it has none.
uint64_t LibraryListAddress(const ProcessMemory& memory, const std::vector<uint64_t>& auxv) {
  uint64_t headers = 0, count = 0, bias = 0, dynamic = 0;
  for (size_t i = 0; i + 1 < auxv.size(); i += 2) {
    if (auxv[i] == AT_PHDR) headers = auxv[i + 1];
    if (auxv[i] == AT_PHNUM) count = std::min<uint64_t>(auxv[i + 1], 64);
  }
  for (uint64_t i = 0; headers != 0 && i < count; ++i) {
    Elf64_Phdr header;
    if (!ReadValue(memory, headers + i * sizeof(header), &header)) return 0;
    if (header.p_type == PT_PHDR) bias = headers - header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = header.p_vaddr;
  }
  for (int i = 0; dynamic != 0 && i < 256; ++i) {
    Elf64_Dyn entry;
    if (!ReadValue(memory, bias + dynamic + i * sizeof(entry), &entry) || entry.d_tag == DT_NULL) {
      return 0;
    }
    if (entry.d_tag == DT_DEBUG) return entry.d_un.d_ptr;
  }
  return 0;
}

}  // namespace

void WantedMemory::Add(uint64_t begin, uint64_t end) {
  if (begin < end) ranges_.push_back({PageOf(begin), PageOf(end - 1) + kPageBytes});
}

void WantedMemory::AddStacks(const Capture& capture, const MemoryMap& map) {
  for (const ThreadMoment& thread : capture.threads) {
    const uint64_t top = thread.registers.gpr[kRsp];
    const MapRegion* const region = map.Find(top);
    if (region == nullptr) continue;
    Add(std::max(region->start, top - kRedZone), std::min(region->end, top + kLongestStack));
  }
}

void WantedMemory::AddLibraryList(const Capture& capture) {
  const CapturedMemory memory(capture);
  const uint64_t list = LibraryListAddress(memory, capture.auxv);
  r_debug debug;
  if (list == 0 || !ReadValue(memory, list, &debug)) return;
  Add(list, list + sizeof(debug));
  auto address = reinterpret_cast<uint64_t>(debug.r_map);
  for (int i = 0; address != 0 && i < kMostLibraries; ++i) {
    link_map library;
    if (!ReadValue(memory, address, &library)) return;
    Add(address, address + sizeof(library));
    const auto name = reinterpret_cast<uint64_t>(library.l_name);
    Add(name, name + kLongestPath);
    address = reinterpret_cast<uint64_t>(library.l_next);
  }
}

WantedMemory WantedMemory::Of(const Capture& capture, const MemoryMap& map) {
  WantedMemory wanted;
  const SavedMemory& save = capture.save;
  wanted.all_ = save.all;
  if (save.all) return wanted;
  if (save.stacks) wanted.AddStacks(capture, map);
  for (const SavedRange& range : save.ranges) wanted.Add(range.begin, range.end);
  const std::string root = absl::StrCat("/proc/", capture.copy->pid(), "/root");
  for (const std::string& name : save.variables) {
    for (const VariablePlace& place : FindVariables(name, map, root)) {
      wanted.Add(place.begin, place.end);
    }
  }
  wanted.AddLibraryList(capture);
  for (const MapRegion& region : map.regions()) {
    const bool constant = region.module >= 0 && (region.protection & PROT_WRITE) == 0;
    if (constant || region.name == "[vdso]") wanted.Add(region.start, region.end);
  }
  return wanted;
}

std::vector<std::pair<MapRegion, bool>> WantedMemory::Parts(const MapRegion& region) const {
  if (all_) return {{region, true}};
  std::set<uint64_t> ends = {region.end};
  for (const SavedRange& range : ranges_) {
    for (const uint64_t end : {range.begin, range.end}) {
      if (end > region.start && end < region.end) ends.insert(end);
    }
  }
  std::vector<std::pair<MapRegion, bool>> parts;
  uint64_t start = region.start;
  for (const uint64_t end : ends) {
    const bool wanted = std::any_of(ranges_.begin(), ranges_.end(), [&](const SavedRange& range) {
      return range.begin <= start && end <= range.end;
    });
    MapRegion part = region;
    part.start = start;
    part.end = end;
    part.file_offset = region.file_offset + (start - region.start);
    parts.emplace_back(std::move(part), wanted);
    start = end;
  }
  return parts;
}

}  // namespace hindsight
