#include "keyframes/inspect/link_map.h"

#include <elf.h>
#include <link.h>

#include <cstring>

#include "absl/status/status.h"
#include "keyframes/inspect/elf_image.h"

namespace hindsight {
namespace {

// More than any program loads; a list this long is a loop.
constexpr int kMaxLibraries = 100'000;
constexpr int kMaxDynamicEntries = 10'000;
constexpr uint64_t kMaxProgramHeaders = 1000;

template <typename T>
std::optional<T> Read(MemoryReader memory, uint64_t address) {
  T value;
  absl::Span<uint8_t> out(reinterpret_cast<uint8_t*>(&value), sizeof(value));
  if (!memory(address, out)) return std::nullopt;
  return value;
}

// Where the program's dynamic section was loaded.
std::optional<uint64_t> DynamicAddress(absl::Span<const uint64_t> auxv, MemoryReader memory) {
  uint64_t headers = AuxvValue(auxv, AT_PHDR).value_or(0);
  uint64_t number = AuxvValue(auxv, AT_PHNUM).value_or(0);
  if (headers == 0 || number > kMaxProgramHeaders) return std::nullopt;
  std::optional<uint64_t> dynamic, linked_headers;
  for (uint64_t i = 0; i < number; ++i) {
    auto header = Read<Elf64_Phdr>(memory, headers + i * sizeof(Elf64_Phdr));
    if (!header) return std::nullopt;
    if (header->p_type == PT_DYNAMIC) dynamic = header->p_vaddr;
    if (header->p_type == PT_PHDR) linked_headers = header->p_vaddr;
    // Without a PT_PHDR: the headers follow the ELF header directly, at the start of the file.
    if (header->p_type == PT_LOAD && header->p_offset == 0 && !linked_headers) {
      linked_headers = header->p_vaddr + sizeof(Elf64_Ehdr);
    }
  }
  if (!dynamic || !linked_headers) return std::nullopt;
  return *dynamic + (headers - *linked_headers);
}

std::optional<uint64_t> DebugAddress(uint64_t dynamic, MemoryReader memory) {
  for (int i = 0; i < kMaxDynamicEntries; ++i) {
    auto entry = Read<Elf64_Dyn>(memory, dynamic + i * sizeof(Elf64_Dyn));
    if (!entry || entry->d_tag == DT_NULL) return std::nullopt;
    if (entry->d_tag == DT_DEBUG) return entry->d_un.d_ptr;
  }
  return std::nullopt;
}

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// A "descriptor" of nptl_db: size in bits, number of elements, offset in bytes.
std::optional<uint32_t> FieldOffset(const ElfImage& image, absl::string_view symbol) {
  auto bytes = image.SymbolBytes(symbol, 3 * sizeof(uint32_t));
  if (!bytes) return std::nullopt;
  uint32_t descriptor[3];
  std::memcpy(descriptor, bytes->data(), sizeof(descriptor));
  return descriptor[2];
}

}  // namespace

std::optional<uint64_t> ReadWord(MemoryReader memory, uint64_t address) {
  return Read<uint64_t>(memory, address);
}

std::string ReadString(MemoryReader memory, uint64_t address) {
  std::string text;
  while (text.size() < 4096) {
    std::optional<char> c = Read<char>(memory, address + text.size());
    if (!c || *c == 0) break;
    text += *c;
  }
  return text;
}

std::optional<uint64_t> AuxvValue(absl::Span<const uint64_t> auxv, uint64_t type) {
  for (size_t i = 0; i + 1 < auxv.size(); i += 2) {
    if (auxv[i] == type) return auxv[i + 1];
  }
  return std::nullopt;
}

LinkMap ReadLinkMap(absl::Span<const uint64_t> auxv, MemoryReader memory) {
  LinkMap result;
  std::optional<uint64_t> dynamic = DynamicAddress(auxv, memory);
  if (!dynamic) return result;
  std::optional<uint64_t> debug = DebugAddress(*dynamic, memory);
  if (!debug || *debug == 0) return result;
  auto header = Read<r_debug>(memory, *debug);
  if (!header) return result;
  uint64_t at = Address(header->r_map);
  uint64_t previous = 0;
  for (int i = 0; at != 0 && i < kMaxLibraries; ++i) {
    auto entry = Read<link_map>(memory, at);
    // The linker sets l_prev before it makes an entry reachable: anything else is not a list.
    if (!entry || Address(entry->l_prev) != previous) break;
    std::string path = ReadString(memory, Address(entry->l_name));
    if (previous == 0) {
      result.main = at;
    } else if (!path.empty()) {
      result.libraries.push_back({.path = std::move(path),
                                  .link_map = at,
                                  .load_address = entry->l_addr,
                                  .dynamic = Address(entry->l_ld)});
    }
    previous = at;
    at = Address(entry->l_next);
  }
  return result;
}

std::optional<GlibcTlsLayout> ReadGlibcTlsLayout(absl::Span<const uint8_t> library) {
  absl::StatusOr<ElfImage> image = ElfImage::Parse(library);
  if (!image.ok()) return std::nullopt;
  std::optional<uint32_t> module_id = FieldOffset(*image, "_thread_db_link_map_l_tls_modid");
  if (!module_id) return std::nullopt;
  return GlibcTlsLayout{
      .module_id_offset = *module_id,
      .static_offset_offset = FieldOffset(*image, "_thread_db_link_map_l_tls_offset")};
}

absl::StatusOr<uint64_t> GlibcTlsAddress(const std::optional<GlibcTlsLayout>& layout,
                                         uint64_t fs_base, uint64_t link_map, uint64_t offset,
                                         MemoryReader memory) {
  // On amd64 fs_base points at the thread control block: its own address, then the vector (dtv)
  // of 16-byte entries, one per module; entry 0 is the generation of the vector.
  constexpr uint64_t kDtvOffset = 8, kDtvEntryBytes = 16;
  constexpr uint64_t kUnallocated = ~uint64_t{0};
  if (fs_base == 0) return absl::NotFoundError("the thread has no thread-local storage yet");
  uint64_t module_id = 1;
  if (link_map != 0) {
    if (!layout) return absl::NotFoundError("the C library's thread layout is not in the trace");
    auto id = Read<uint64_t>(memory, link_map + layout->module_id_offset);
    if (!id || *id == 0) return absl::NotFoundError("the module has no thread-local storage");
    module_id = *id;
  }
  auto dtv = Read<uint64_t>(memory, fs_base + kDtvOffset);
  if (dtv && *dtv != 0) {
    // The entry before the vector's first holds its length.
    auto length = Read<uint64_t>(memory, *dtv - kDtvEntryBytes);
    auto block = Read<uint64_t>(memory, *dtv + module_id * kDtvEntryBytes);
    if (length && module_id <= *length && block && *block != kUnallocated && *block != 0) {
      return *block + offset;
    }
  }
  // Modules loaded at start lie at a fixed distance below the control block, also before the
  // thread's first use of them.
  if (link_map != 0 && layout->static_offset_offset) {
    auto distance = Read<int64_t>(memory, link_map + *layout->static_offset_offset);
    if (distance && *distance > 0) return fs_base - *distance + offset;
  }
  return absl::NotFoundError("the thread has not used this module's thread-local storage yet");
}

}  // namespace hindsight
