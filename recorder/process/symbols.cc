#include "recorder/process/symbols.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/unique_fd.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr char kDebugDirectory[] = "/usr/lib/debug/.build-id/";
// Called by glibc's and musl's linker to notify a debugger.
constexpr char kLinkerFunction[] = "_dl_debug_state";
constexpr size_t kMostSuggestions = 5;

bool ParseNumber(absl::string_view text, uint64_t* number) {
  if (absl::StartsWith(text, "0x") || absl::StartsWith(text, "0X")) {
    return absl::SimpleHexAtoi(text, number);
  }
  return absl::SimpleAtoi(text, number);
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

// "ns::f(int, char) const" -> "ns::f"; the empty string if it is not a C++ name.
std::string DemangledName(const char* mangled) {
  if (mangled[0] != '_' || mangled[1] != 'Z') return "";
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr);
  if (text == nullptr) return "";
  std::string name = text;
  free(text);
  // The parameters begin at the first parenthesis that is not inside <> and is not that of
  // "operator()" or "(anonymous namespace)".
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>' && depth > 0) --depth;
    if (name[i] != '(' || depth > 0) continue;
    const absl::string_view before = absl::string_view(name).substr(0, i);
    const absl::string_view after = absl::string_view(name).substr(i);
    if (absl::StartsWith(after, "(anonymous namespace)")) continue;
    if (absl::EndsWith(before, "operator") && absl::StartsWith(after, "()")) {
      ++i;
      continue;
    }
    name.resize(i);
    break;
  }
  return name;
}

// The edit distance between two names, up to `limit` + 1.
size_t Distance(absl::string_view a, absl::string_view b, size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

struct ElfCloser {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfPointer = std::unique_ptr<Elf, ElfCloser>;

std::vector<GElf_Phdr> LoadSegments(Elf* elf) {
  std::vector<GElf_Phdr> segments;
  size_t count = 0;
  elf_getphdrnum(elf, &count);
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) continue;
    if (segment.p_type == PT_LOAD) segments.push_back(segment);
  }
  return segments;
}

// Calls `visit` with the name of each symbol and the symbol itself. False: there is no full symbol
// table, only the dynamic one or none.
template <typename Visit>
bool ForEachSymbol(Elf* elf, const Visit& visit) {
  bool full = false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0) continue;
    if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) continue;
    Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr) continue;
    full = full || header.sh_type == SHT_SYMTAB;
    for (size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr) visit(name, symbol);
    }
  }
  return full;
}

bool IsFunction(const GElf_Sym& symbol) {
  return GELF_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
         symbol.st_value != 0;
}

}  // namespace

// The functions of one ELF file, as addresses it is linked at.
class Symbols::File {
 public:
  explicit File(const std::string& path) {
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) return;
    const ElfPointer elf(elf_begin(fd.get(), ELF_C_READ_MMAP_PRIVATE, nullptr));
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) return;
    segments_ = LoadSegments(elf.get());
    if (!ReadFunctions(elf.get())) ReadDebugFile(elf.get());
  }

  // Addresses, as linked, of functions of this name; if there is none, of those that have it in
  // some namespace or class.
  std::set<uint64_t> Find(const std::string& name) const {
    std::set<uint64_t> found;
    const auto [from, to] = functions_.equal_range(name);
    for (auto it = from; it != to; ++it) found.insert(it->second);
    if (!found.empty()) return found;
    const std::string suffix = "::" + name;
    for (const auto& [function, address] : functions_) {
      if (absl::EndsWith(function, suffix)) found.insert(address);
    }
    return found;
  }

  const std::multimap<std::string, uint64_t>& functions() const { return functions_; }

  // The offset in the file of an address as linked; false if it is not of the file.
  bool OffsetOf(uint64_t address, uint64_t* offset) const {
    for (const GElf_Phdr& segment : segments_) {
      if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
      *offset = address - segment.p_vaddr + segment.p_offset;
      return true;
    }
    return false;
  }

 private:
  // False if there is no full symbol table, only the dynamic one or none.
  bool ReadFunctions(Elf* elf) {
    return ForEachSymbol(elf, [this](const char* name, const GElf_Sym& symbol) {
      if (IsFunction(symbol)) Add(name, symbol.st_value);
    });
  }

  void Add(const char* name, uint64_t address) {
    const std::string demangled = DemangledName(name);
    if (!demangled.empty()) functions_.emplace(demangled, address);
    const absl::string_view whole = name;
    // "f@@VERSION" in the tables of programs.
    functions_.emplace(std::string(whole.substr(0, whole.find('@'))), address);
  }

  // Distributions have the symbols of libraries in separate packages, found by build-id.
  void ReadDebugFile(Elf* elf) {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_NOTE) continue;
      Elf_Data* data = elf_getdata(section, nullptr);
      GElf_Nhdr note;
      size_t name = 0, description = 0;
      if (data == nullptr || gelf_getnote(data, 0, &note, &name, &description) == 0) continue;
      if (note.n_type != NT_GNU_BUILD_ID || note.n_descsz < 2) continue;
      const absl::string_view id(static_cast<const char*>(data->d_buf) + description,
                                 note.n_descsz);
      const std::string path =
          absl::StrCat(kDebugDirectory, absl::BytesToHexString(id.substr(0, 1)), "/",
                       absl::BytesToHexString(id.substr(1)), ".debug");
      UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) return;
      const ElfPointer debug(elf_begin(fd.get(), ELF_C_READ_MMAP_PRIVATE, nullptr));
      if (debug != nullptr) ReadFunctions(debug.get());
      return;
    }
  }

  std::vector<GElf_Phdr> segments_;
  std::multimap<std::string, uint64_t> functions_;
};

absl::StatusOr<CodePlace> ParseCodePlace(absl::string_view text) {
  CodePlace place;
  place.text = std::string(text);
  if (text.empty()) return absl::InvalidArgumentError("the place is empty");
  if (absl::StartsWith(text, "0x") || absl::StartsWith(text, "0X")) {
    if (!ParseNumber(text, &place.offset)) {
      return absl::InvalidArgumentError(absl::StrCat(text, ": not a hexadecimal address"));
    }
    return place;
  }
  // "a.out:f", but not "ns::f".
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ':') continue;
    if (i + 1 < text.size() && text[i + 1] == ':') {
      ++i;
      continue;
    }
    place.file = std::string(text.substr(0, i));
    text.remove_prefix(i + 1);
    if (place.file.empty()) return absl::InvalidArgumentError(place.text + ": no file before ':'");
    break;
  }
  const size_t plus = text.rfind('+');
  // operator+ and operator++ are functions.
  if (plus != text.npos && plus + 1 < text.size() && absl::ascii_isdigit(text[plus + 1])) {
    if (!ParseNumber(text.substr(plus + 1), &place.offset)) {
      return absl::InvalidArgumentError(absl::StrCat(place.text, ": not a number after '+'"));
    }
    text = text.substr(0, plus);
  }
  if (text.empty()) return absl::InvalidArgumentError(place.text + ": no function");
  place.function = std::string(text);
  return place;
}

Symbols::Symbols() { elf_version(EV_CURRENT); }
Symbols::~Symbols() = default;

const Symbols::File& Symbols::FileOf(const MapRegion& region, const std::string& root) {
  const auto key =
      std::make_pair(uint64_t{region.device_major} << 32 | region.device_minor, region.inode);
  std::unique_ptr<File>& file = files_[key];
  if (file == nullptr) file = std::make_unique<File>(root + region.name);
  return *file;
}

namespace {

bool MayHoldCode(const MapRegion& region) {
  return region.inode != 0 && (region.protection & PROT_EXEC) != 0 &&
         absl::StartsWith(region.name, "/");
}

bool IsNamed(const MapRegion& region, const std::string& file) {
  return file.empty() || region.name == file || BaseName(region.name) == file;
}

}  // namespace

std::vector<uint64_t> Symbols::Find(const CodePlace& place, const MemoryMap& map,
                                    const std::string& root) {
  if (place.function.empty()) return {place.offset};
  std::set<uint64_t> found;
  for (const MapRegion& region : map.regions()) {
    if (!MayHoldCode(region) || !IsNamed(region, place.file)) continue;
    const File& file = FileOf(region, root);
    for (const uint64_t linked : file.Find(place.function)) {
      uint64_t offset;
      if (!file.OffsetOf(linked, &offset) || offset < region.file_offset ||
          offset - region.file_offset >= region.end - region.start) {
        continue;
      }
      found.insert(region.start + (offset - region.file_offset) + place.offset);
    }
  }
  return std::vector<uint64_t>(found.begin(), found.end());
}

std::vector<uint64_t> Symbols::LinkerHooks(const MemoryMap& map, const std::string& root) {
  std::vector<uint64_t> hooks;
  for (const MapRegion& region : map.regions()) {
    // ld-linux-x86-64.so.2, ld-2.31.so, ld-musl-x86_64.so.1
    const absl::string_view name = BaseName(region.name);
    if (!MayHoldCode(region) || !absl::StartsWith(name, "ld-")) continue;
    CodePlace place;
    place.file = region.name;
    place.function = kLinkerFunction;
    hooks = Find(place, map, root);
    if (!hooks.empty()) break;
  }
  return hooks;
}

absl::Status Symbols::NotFound(const CodePlace& place, const MemoryMap& map,
                               const std::string& root) {
  const size_t limit = std::max<size_t>(1, place.function.size() / 4);
  std::set<std::pair<size_t, std::string>> near;  // by distance
  bool file_found = false;
  for (const MapRegion& region : map.regions()) {
    if (!MayHoldCode(region) || !IsNamed(region, place.file)) continue;
    file_found = true;
    for (const auto& [name, address] : FileOf(region, root).functions()) {
      const bool within = place.function.size() >= 4 && absl::StrContains(name, place.function);
      const size_t distance = within ? limit : Distance(name, place.function, limit);
      if (distance <= limit) near.emplace(distance, name);
      if (near.size() > kMostSuggestions) near.erase(std::prev(near.end()));
    }
  }
  if (!file_found && !place.file.empty()) {
    return absl::NotFoundError(
        absl::StrCat(place.text, ": the program has not mapped a file \"", place.file, "\""));
  }
  std::string text = absl::StrCat(place.text, ": no function of that name");
  if (!near.empty()) {
    const auto name_of = [](std::string* out, const auto& entry) { *out += entry.second; };
    absl::StrAppend(&text, "; similar: ", absl::StrJoin(near, ", ", name_of));
  }
  return absl::NotFoundError(text);
}

namespace {

bool HasName(const char* symbol, const std::string& name) {
  if (name == symbol) return true;
  if (symbol[0] != '_' || symbol[1] != 'Z') return false;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  const bool same = text != nullptr && name == text;
  free(text);
  return same;
}

// As linked.
std::vector<VariablePlace> VariablesIn(Elf* elf, const std::string& name) {
  std::vector<VariablePlace> found;
  ForEachSymbol(elf, [&](const char* symbol_name, const GElf_Sym& symbol) {
    if (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF) return;
    if (!HasName(symbol_name, name)) return;
    found.push_back({symbol.st_value, symbol.st_value + std::max<uint64_t>(symbol.st_size, 1)});
  });
  return found;
}

uint64_t FirstAddress(Elf* elf) {
  for (const GElf_Phdr& segment : LoadSegments(elf)) return PageOf(segment.p_vaddr);
  return 0;
}

}  // namespace

std::vector<VariablePlace> FindVariables(const std::string& name, const MemoryMap& map,
                                         const std::string& root) {
  elf_version(EV_CURRENT);
  std::vector<VariablePlace> found;
  for (const MapRegion& region : map.regions()) {
    if (region.inode == 0 || region.file_offset != 0 || !absl::StartsWith(region.name, "/")) {
      continue;
    }
    const UniqueFd fd(open((root + region.name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) continue;
    const ElfPointer elf(elf_begin(fd.get(), ELF_C_READ_MMAP_PRIVATE, nullptr));
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) continue;
    const uint64_t bias = region.start - FirstAddress(elf.get());
    for (const VariablePlace& linked : VariablesIn(elf.get(), name)) {
      found.push_back({bias + linked.begin, bias + linked.end});
    }
  }
  return found;
}

}  // namespace hindsight
