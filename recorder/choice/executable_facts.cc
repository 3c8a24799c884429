#include "recorder/choice/executable_facts.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

struct ElfCloser {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfPointer = std::unique_ptr<Elf, ElfCloser>;

// x86-64-v3 has AVX, and v4.
constexpr uint32_t kVersionsWithAvx = 1 << 2 | 1 << 3;

// True if there is such a table.
bool FindSymbols(Elf* elf, uint32_t table, const std::set<std::string>& names,
                 std::set<std::string>* found) {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != table) continue;
    Elf_Data* data = header.sh_entsize != 0 ? elf_getdata(section, nullptr) : nullptr;
    if (data == nullptr) continue;
    for (size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr && names.count(name) != 0) found->insert(name);
    }
    return true;
  }
  return false;
}

// Properties: type, size, that many bytes, up to a multiple of 8.
bool NeedsAvx(const uint8_t* bytes, size_t size) {
  for (size_t at = 0; at + 8 <= size;) {
    uint32_t head[2];
    std::memcpy(head, bytes + at, sizeof(head));
    at += sizeof(head);
    uint32_t value = 0;
    if (head[0] == GNU_PROPERTY_X86_ISA_1_NEEDED && head[1] == 4 && at + 4 <= size) {
      std::memcpy(&value, bytes + at, sizeof(value));
    }
    if ((value & kVersionsWithAvx) != 0) return true;
    at += (size_t{head[1]} + 7) & ~size_t{7};
  }
  return false;
}

bool NeedsAvx(Elf* elf) {
  size_t count = 0;
  elf_getphdrnum(elf, &count);
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) continue;
    if (segment.p_type != PT_GNU_PROPERTY) continue;
    Elf_Data* data = elf_getdata_rawchunk(elf, static_cast<int64_t>(segment.p_offset),
                                          segment.p_filesz, ELF_T_NHDR8);
    GElf_Nhdr note;
    size_t name = 0, description = 0;
    if (data == nullptr || gelf_getnote(data, 0, &note, &name, &description) == 0) continue;
    const auto* const bytes = static_cast<const uint8_t*>(data->d_buf) + description;
    if (note.n_type == NT_GNU_PROPERTY_TYPE_0 && NeedsAvx(bytes, note.n_descsz)) return true;
  }
  return false;
}

}  // namespace

ExecutableFacts ReadExecutableFacts(const std::string& path, const std::set<std::string>& names) {
  ExecutableFacts facts;
  elf_version(EV_CURRENT);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return facts;
  const ElfPointer elf(elf_begin(fd.get(), ELF_C_READ_MMAP_PRIVATE, nullptr));
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) return facts;
  if (!FindSymbols(elf.get(), SHT_DYNSYM, names, &facts.symbols)) {
    FindSymbols(elf.get(), SHT_SYMTAB, names, &facts.symbols);
  }
  facts.needs_avx = NeedsAvx(elf.get());
  return facts;
}

}  // namespace hindsight
