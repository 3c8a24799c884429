#include "keyframes/inspect/elf_image.h"

#include <gelf.h>
#include <libelf.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace hindsight {
namespace {

struct ElfCloser {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using UniqueElf = std::unique_ptr<Elf, ElfCloser>;

UniqueElf Open(absl::Span<const uint8_t> bytes) {
  elf_version(EV_CURRENT);
  // Not written to: libelf changes the image only in elf_update, which is never called.
  char* image = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  return UniqueElf(elf_memory(image, bytes.size()));
}

std::optional<uint64_t> FindInTable(Elf* elf, Elf_Scn* section, const GElf_Shdr& header,
                                    absl::string_view symbol) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return std::nullopt;
  size_t entries = data->d_size / header.sh_entsize;
  for (size_t i = 0; i < entries; ++i) {
    GElf_Sym entry;
    if (gelf_getsym(data, static_cast<int>(i), &entry) == nullptr) return std::nullopt;
    if (entry.st_shndx == SHN_UNDEF) continue;
    const char* name = elf_strptr(elf, header.sh_link, entry.st_name);
    if (name != nullptr && name == symbol) return entry.st_value;
  }
  return std::nullopt;
}

void AddObjects(Elf* elf, Elf_Scn* section, const GElf_Shdr& header,
                std::map<uint64_t, ElfImage::Object>* objects) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  const size_t entries = data->d_size / header.sh_entsize;
  for (size_t i = 0; i < entries; ++i) {
    GElf_Sym entry;
    if (gelf_getsym(data, static_cast<int>(i), &entry) == nullptr) return;
    if (entry.st_shndx == SHN_UNDEF || entry.st_size == 0) continue;
    if (GELF_ST_TYPE(entry.st_info) != STT_OBJECT) continue;
    const char* name = elf_strptr(elf, header.sh_link, entry.st_name);
    if (name == nullptr || *name == '\0') continue;
    ElfImage::Object& object = (*objects)[entry.st_value];
    if (object.size_bytes < entry.st_size) object = {name, entry.st_value, entry.st_size};
  }
}

}  // namespace

absl::StatusOr<ElfImage> ElfImage::Parse(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0 ||
      bytes[EI_CLASS] != ELFCLASS64 || bytes[EI_DATA] != ELFDATA2LSB) {
    return absl::InvalidArgumentError("not a 64-bit little-endian ELF file");
  }
  return ElfImage(bytes);
}

std::optional<uint64_t> ElfImage::SymbolAddress(absl::string_view symbol) const {
  UniqueElf elf = Open(bytes_);
  if (elf == nullptr) return std::nullopt;
  for (Elf_Scn* section = elf_nextscn(elf.get(), nullptr); section != nullptr;
       section = elf_nextscn(elf.get(), section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB) continue;
    if (std::optional<uint64_t> address = FindInTable(elf.get(), section, header, symbol)) {
      return address;
    }
  }
  return std::nullopt;
}

std::vector<ElfImage::Object> ElfImage::Objects() const {
  std::map<uint64_t, Object> objects;
  UniqueElf elf = Open(bytes_);
  if (elf == nullptr) return {};
  for (Elf_Scn* section = elf_nextscn(elf.get(), nullptr); section != nullptr;
       section = elf_nextscn(elf.get(), section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB) continue;
    AddObjects(elf.get(), section, header, &objects);
  }
  std::vector<Object> sorted;
  for (auto& [address, object] : objects) sorted.push_back(std::move(object));
  return sorted;
}

std::optional<uint64_t> ElfImage::FirstAddress() const {
  UniqueElf elf = Open(bytes_);
  size_t headers = 0;
  if (elf == nullptr || elf_getphdrnum(elf.get(), &headers) != 0) return std::nullopt;
  for (size_t i = 0; i < headers; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf.get(), static_cast<int>(i), &header) == nullptr) continue;
    constexpr uint64_t kPage = 4096;
    if (header.p_type == PT_LOAD && header.p_offset < kPage) {
      return header.p_vaddr - header.p_offset;
    }
  }
  return std::nullopt;
}

std::optional<absl::Span<const uint8_t>> ElfImage::SymbolBytes(absl::string_view symbol,
                                                               uint64_t size) const {
  std::optional<uint64_t> address = SymbolAddress(symbol);
  UniqueElf elf = Open(bytes_);
  size_t headers = 0;
  if (!address || elf == nullptr || elf_getphdrnum(elf.get(), &headers) != 0) return std::nullopt;
  for (size_t i = 0; i < headers; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf.get(), static_cast<int>(i), &header) == nullptr) continue;
    if (header.p_type != PT_LOAD || *address < header.p_vaddr) continue;
    uint64_t offset = *address - header.p_vaddr;
    if (offset >= header.p_filesz || size > header.p_filesz - offset) continue;
    if (header.p_offset > bytes_.size() || offset > bytes_.size() - header.p_offset) continue;
    offset += header.p_offset;
    if (size > bytes_.size() - offset) continue;
    return bytes_.subspan(offset, size);
  }
  return std::nullopt;
}

}  // namespace hindsight
