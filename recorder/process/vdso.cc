#include "recorder/process/vdso.h"

#include <elf.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace hindsight {
namespace {

struct Function {
  const char* name;
  long system_call;  // -1: the function says -ENOSYS, and libc then makes the system call itself
};

constexpr Function kFunctions[] = {
    {"__vdso_clock_gettime", SYS_clock_gettime},
    {"__vdso_gettimeofday", SYS_gettimeofday},
    {"__vdso_time", SYS_time},
    {"__vdso_getcpu", SYS_getcpu},
    {"__vdso_clock_getres", SYS_clock_getres},
    {"__vdso_getrandom", -1},
};

// What CodeFor returns ends in a `ret`; after it may follow a loop, and a system call with the
// return to a signal frame.
constexpr size_t kCodeBytes = 8;
constexpr uint8_t kExtraCode[] = {0xeb, 0xfe,           // jmp to itself
                                  0x0f, 0x05,           // syscall
                                  0xb8, 15,   0, 0, 0,  // mov eax, SYS_rt_sigreturn
                                  0x0f, 0x05};          // syscall
constexpr size_t kLoopBytes = 2;

std::vector<uint8_t> CodeFor(long system_call) {
  if (system_call < 0) {
    return {0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3};  // mov rax, -ENOSYS; ret
  }
  const auto n = static_cast<uint32_t>(system_call);
  return {0xb8, uint8_t(n), uint8_t(n >> 8), uint8_t(n >> 16), uint8_t(n >> 24),  // mov eax, n
          0x0f, 0x05,                                                             // syscall
          0xc3};                                                                  // ret
}

// A T at `offset` of the image, or nullopt if the image ends before.
template <typename T>
std::optional<T> At(absl::Span<const uint8_t> image, uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

struct DynamicTables {
  uint64_t symbols = 0, strings = 0;
};

// The image is linked at address 0, so addresses in it are offsets.
DynamicTables FindTables(absl::Span<const uint8_t> image) {
  DynamicTables tables;
  const auto header = At<Elf64_Ehdr>(image, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return tables;
  for (int i = 0; i < header->e_phnum; ++i) {
    const auto segment = At<Elf64_Phdr>(image, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_DYNAMIC) continue;
    for (uint64_t at = segment->p_offset;; at += sizeof(Elf64_Dyn)) {
      const auto entry = At<Elf64_Dyn>(image, at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_SYMTAB) tables.symbols = entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) tables.strings = entry->d_un.d_ptr;
    }
  }
  return tables;
}

bool NameIs(absl::Span<const uint8_t> image, uint64_t offset, const char* name) {
  const size_t length = std::strlen(name) + 1;
  return offset <= image.size() && image.size() - offset >= length &&
         std::memcmp(image.data() + offset, name, length) == 0;
}

// This process's vdso.
absl::Span<const uint8_t> OwnImage() {
  const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
  const MapRegion* region = map.FindNamed("[vdso]");
  if (region == nullptr) return {};
  return {reinterpret_cast<const uint8_t*>(region->start), region->end - region->start};
}

}  // namespace

std::vector<VdsoPatch> PlanVdsoPatches(uint64_t base, absl::Span<const uint8_t> image) {
  std::vector<VdsoPatch> patches;
  const DynamicTables tables = FindTables(image);
  if (tables.symbols == 0 || tables.strings == 0) return patches;
  // The number of symbols is nowhere simple to find; the linker puts the strings right after them.
  for (uint64_t at = tables.symbols; at + sizeof(Elf64_Sym) <= tables.strings;
       at += sizeof(Elf64_Sym)) {
    const auto symbol = At<Elf64_Sym>(image, at);
    if (!symbol) break;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) continue;
    for (const Function& function : kFunctions) {
      if (!NameIs(image, tables.strings + symbol->st_name, function.name)) continue;
      VdsoPatch patch = {base + symbol->st_value, CodeFor(function.system_call), {}};
      if (symbol->st_size < kCodeBytes || !At<uint64_t>(image, symbol->st_value)) continue;
      if (symbol->st_size >= kCodeBytes + std::size(kExtraCode) &&
          image.size() - symbol->st_value >= symbol->st_size && !FindVdsoLoop(patches)) {
        patch.code.insert(patch.code.end(), std::begin(kExtraCode), std::end(kExtraCode));
      }
      const uint8_t* bytes = image.data() + symbol->st_value;
      patch.original.assign(bytes, bytes + patch.code.size());
      patches.push_back(std::move(patch));
    }
  }
  return patches;
}

std::optional<uint64_t> FindVdsoLoop(absl::Span<const VdsoPatch> patches) {
  for (const VdsoPatch& patch : patches) {
    if (patch.code.size() > kCodeBytes) return patch.address + kCodeBytes;
  }
  return std::nullopt;
}

std::optional<uint64_t> FindVdsoCall(absl::Span<const VdsoPatch> patches) {
  const std::optional<uint64_t> loop = FindVdsoLoop(patches);
  if (!loop.has_value()) return std::nullopt;
  return *loop + kLoopBytes;
}

absl::StatusOr<std::vector<VdsoPatch>> PatchVdso(const MemoryMap& map, ProcessMemory* memory) {
  std::vector<VdsoPatch> done;
  const MapRegion* region = map.FindNamed("[vdso]");
  if (region == nullptr) return done;
  std::vector<uint8_t> image(region->end - region->start);
  if (!memory->Read(region->start, absl::MakeSpan(image))) {
    return absl::InternalError("cannot read the program's vdso");
  }
  const std::vector<VdsoPatch> own = PlanVdsoPatches(region->start, OwnImage());
  for (VdsoPatch& patch : PlanVdsoPatches(region->start, image)) {
    if (patch.original == patch.code) {
      const auto same = std::find_if(own.begin(), own.end(), [&](const VdsoPatch& other) {
        return other.address == patch.address && other.code == patch.code;
      });
      if (same != own.end() && same->original != same->code) done.push_back(*same);
      continue;
    }
    if (!memory->Write(patch.address, patch.code)) {
      return absl::InternalError("cannot patch the program's vdso");
    }
    done.push_back(std::move(patch));
  }
  return done;
}

absl::Status RestoreVdso(absl::Span<const VdsoPatch> patches, ProcessMemory* memory) {
  for (const VdsoPatch& patch : patches) {
    std::vector<uint8_t> now(patch.code.size());
    // The process is gone, runs another program by now, or has unmapped it.
    if (!memory->Read(patch.address, absl::MakeSpan(now)) || now != patch.code) continue;
    if (!memory->Write(patch.address, patch.original)) {
      return absl::InternalError("cannot restore the program's vdso");
    }
  }
  return absl::OkStatus();
}

bool LeaveVdsoPatch(absl::Span<const VdsoPatch> patches, uint64_t return_address, uint64_t* rip,
                    uint64_t* rsp) {
  for (const VdsoPatch& patch : patches) {
    if (*rip <= patch.address || *rip - patch.address >= kCodeBytes) continue;
    if (*rip - patch.address == kCodeBytes - 1) {  // at the `ret`
      *rip = return_address;
      *rsp += sizeof(uint64_t);
    } else {
      *rip = patch.address;  // only rax is set so far, which means nothing to a function
    }
    return true;
  }
  return false;
}

}  // namespace hindsight
