#include "recorder/snapshot/wanted_memory.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "recorder/process/process_memory.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kRedZone = 128;  // below the stack pointer
// What lies above the stack pointer in one mapping may be more than a stack.
constexpr uint64_t kLongestStack = uint64_t{16} << 20;
constexpr int kMostLibraries = 4096;
constexpr uint64_t kLongestPath = 4096;

struct ElfCloser {
  void operator()(Elf* elf) const { elf_end(elf); }
};

bool HasName(const char* symbol, const std::string& name) {
  if (name == symbol) return true;
  if (symbol[0] != '_' || symbol[1] != 'Z') return false;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  const bool same = text != nullptr && name == text;
  free(text);
  return same;
}

// As linked.
std::vector<SavedRange> VariablesIn(Elf* elf, const std::string& name) {
  std::vector<SavedRange> found;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0) continue;
    if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) continue;
    Elf_Data* const data = elf_getdata(section, nullptr);
    for (size_t i = 0; data != nullptr && i < header.sh_size / header.sh_entsize; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      if (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF) continue;
      const char* const text = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (text == nullptr || !HasName(text, name)) continue;
      found.push_back({symbol.st_value, symbol.st_value + std::max<uint64_t>(symbol.st_size, 1)});
    }
  }
  return found;
}

uint64_t FirstAddress(Elf* elf) {
  size_t count = 0;
  elf_getphdrnum(elf, &count);
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) continue;
    if (segment.p_type == PT_LOAD) return PageOf(segment.p_vaddr);
  }
  return 0;
}

template <typename T>
bool ReadValue(const ProcMemFile& memory, uint64_t address, T* value) {
  return memory.Read(address, {reinterpret_cast<uint8_t*>(value), sizeof(*value)});
}

// Of the program's dynamic section (DT_DEBUG); 0: it has none.
uint64_t LibraryListAddress(const ProcMemFile& memory, const std::vector<uint64_t>& auxv) {
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

std::vector<SavedRange> FindVariables(const std::string& name, const MemoryMap& map,
                                      const std::string& root) {
  elf_version(EV_CURRENT);
  std::vector<SavedRange> found;
  for (const MapRegion& region : map.regions()) {
    if (region.inode == 0 || region.file_offset != 0 || !absl::StartsWith(region.name, "/")) {
      continue;
    }
    const UniqueFd fd(open((root + region.name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) continue;
    const std::unique_ptr<Elf, ElfCloser> elf(
        elf_begin(fd.get(), ELF_C_READ_MMAP_PRIVATE, nullptr));
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) continue;
    const uint64_t bias = region.start - FirstAddress(elf.get());
    for (const SavedRange& linked : VariablesIn(elf.get(), name)) {
      found.push_back({bias + linked.begin, bias + linked.end});
    }
  }
  return found;
}

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
  const ProcMemFile memory(capture.copy->pid());
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
    for (const SavedRange& range : FindVariables(name, map, root)) {
      wanted.Add(range.begin, range.end);
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
