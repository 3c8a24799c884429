#include "recorder/symbols/symbols.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/unique_fd.h"
#include "emulator/calls/pure_call.h"
#include "recorder/symbols/debug_file.h"
#include "recorder/symbols/source_lines.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// Called by glibc's and musl's linker to notify a debugger.
constexpr char kLinkerFunction[] = "_dl_debug_state";
constexpr size_t kMostSuggestions = 5;

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
  const int type = GELF_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF &&
         symbol.st_value != 0;
}

bool MayHoldCode(const MapRegion& region) {
  return region.inode != 0 && (region.protection & PROT_EXEC) != 0 &&
         absl::StartsWith(region.name, "/");
}

// A page of a file's code at `address`; false if the file is not to be had.
bool ReadFromFile(const MapRegion& region, uint64_t address, const SymbolSource& source,
                  absl::Span<uint8_t> page) {
  const UniqueFd file(open(source.path_of(region).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const auto offset = static_cast<off_t>(region.file_offset + (address - region.start));
  const ssize_t got = pread(file.get(), page.data(), page.size(), offset);
  if (got <= 0) return false;
  std::fill(page.begin() + got, page.end(), uint8_t{0});  // beyond the file's end
  return true;
}

// What a chooser of the process returns; 0 if it cannot be known. Code is read from its file, where
// that is there: in memory there may be breakpoints, at the chooser itself to begin with.
uint64_t ChoiceOf(uint64_t chooser, const SymbolSource& source, const MemoryMap& map) {
  const auto pages = [&](uint64_t address, absl::Span<uint8_t> page) {
    const MapRegion* const region = map.Find(address);
    const bool code = region != nullptr && MayHoldCode(*region);
    return (code && ReadFromFile(*region, address, source, page)) ||
           source.read_memory(address, page);
  };
  const uint64_t chosen = CallPure(pages, chooser).value_or(0);
  const MapRegion* const region = map.Find(chosen);
  return region != nullptr && (region->protection & PROT_EXEC) != 0 ? chosen : 0;
}

}  // namespace

struct Function {
  uint64_t address = 0;  // as linked
  bool chooses = false;  // is a chooser
  bool operator<(const Function& other) const { return address < other.address; }
};

// The functions and lines of one ELF file.
class Symbols::File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {
    UniqueFd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) return;
    const ElfPointer elf(elf_begin(fd.get(), ELF_C_READ_MMAP_PRIVATE, nullptr));
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) return;
    segments_ = LoadSegments(elf.get());
    if (!ReadFunctions(elf.get())) ReadDebugFile(elf.get());
  }

  // Those of this name; if there is none, those that have it in some namespace or class. Of a line
  // where its code begins.
  std::set<Function> Find(const CodePlace& place) {
    std::set<Function> found;
    if (place.line != 0) {
      for (const uint64_t address : CodeOf(place).addresses) found.insert({address});
      return found;
    }
    const auto [from, to] = functions_.equal_range(place.function);
    for (auto it = from; it != to; ++it) found.insert(it->second);
    if (!found.empty()) return found;
    const std::string suffix = "::" + place.function;
    for (const auto& [name, function] : functions_) {
      if (absl::EndsWith(name, suffix)) found.insert(function);
    }
    return found;
  }

  // Requires: the place is a line.
  const LineCode& CodeOf(const CodePlace& place) {
    const auto [found, added] = lines_.try_emplace({place.source, place.line});
    if (added) found->second = FindLine(path_, place.source, place.line);
    return found->second;
  }

  const std::multimap<std::string, Function>& functions() const { return functions_; }

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
      if (IsFunction(symbol)) Add(name, symbol);
    });
  }

  void Add(const char* name, const GElf_Sym& symbol) {
    const Function function = {symbol.st_value, GELF_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC};
    const std::string demangled = DemangledName(name);
    if (!demangled.empty()) functions_.emplace(demangled, function);
    const absl::string_view whole = name;
    // "f@@VERSION" in the tables of programs.
    functions_.emplace(std::string(whole.substr(0, whole.find('@'))), function);
  }

  // Distributions have the symbols of libraries in separate packages.
  void ReadDebugFile(Elf* elf) {
    const UniqueFd fd(open(DebugFileOf(elf).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return;
    const ElfPointer debug(elf_begin(fd.get(), ELF_C_READ_MMAP_PRIVATE, nullptr));
    if (debug != nullptr) ReadFunctions(debug.get());
  }

  const std::string path_;
  std::vector<GElf_Phdr> segments_;
  std::multimap<std::string, Function> functions_;
  std::map<std::pair<std::string, uint32_t>, LineCode> lines_;
};

Symbols::Symbols() { elf_version(EV_CURRENT); }
Symbols::~Symbols() = default;

Symbols::File& Symbols::FileOf(const MapRegion& region, const SymbolSource& source) {
  const auto key =
      std::make_pair(uint64_t{region.device_major} << 32 | region.device_minor, region.inode);
  std::unique_ptr<File>& file = files_[key];
  if (file == nullptr) {
    file = std::make_unique<File>(source.path_of(region));
  }
  return *file;
}

namespace {

bool IsNamed(const MapRegion& region, const std::string& file) {
  return file.empty() || region.name == file || BaseName(region.name) == file;
}

}  // namespace

Symbols::Found Symbols::Find(const CodePlace& place, const MemoryMap& map,
                             const SymbolSource& source) {
  if (place.is_address()) return {.addresses = {place.offset}};
  std::set<uint64_t> found;
  Found result;
  for (const MapRegion& region : map.regions()) {
    if (!MayHoldCode(region) || !IsNamed(region, place.file)) continue;
    File& file = FileOf(region, source);
    for (const Function& function : file.Find(place)) {
      uint64_t offset;
      if (!file.OffsetOf(function.address, &offset) || offset < region.file_offset ||
          offset - region.file_offset >= region.end - region.start) {
        continue;
      }
      uint64_t address = region.start + (offset - region.file_offset);
      if (function.chooses) {
        result.choosers.push_back(address);
        address = ChoiceOf(address, source, map);
        if (address == 0) continue;
      }
      found.insert(address + place.offset);
    }
  }
  result.addresses.assign(found.begin(), found.end());
  return result;
}

std::vector<uint64_t> Symbols::LinkerHooks(const MemoryMap& map, const SymbolSource& source) {
  std::vector<uint64_t> hooks;
  for (const MapRegion& region : map.regions()) {
    // ld-linux-x86-64.so.2, ld-2.31.so, ld-musl-x86_64.so.1
    const absl::string_view name = BaseName(region.name);
    if (!MayHoldCode(region) || !absl::StartsWith(name, "ld-")) continue;
    CodePlace place;
    place.file = region.name;
    place.function = kLinkerFunction;
    hooks = Find(place, map, source).addresses;
    if (!hooks.empty()) break;
  }
  return hooks;
}

absl::Status Symbols::LineNotFound(const CodePlace& place, const MemoryMap& map,
                                   const SymbolSource& source) {
  bool known = false;
  uint32_t before = 0, after = 0;
  for (const MapRegion& region : map.regions()) {
    if (!MayHoldCode(region)) continue;
    const LineCode& code = FileOf(region, source).CodeOf(place);
    known = known || code.known_source;
    before = std::max(before, code.before);
    if (code.after != 0 && (after == 0 || code.after < after)) after = code.after;
  }
  if (!known) {
    return absl::NotFoundError(absl::StrCat(
        place.text, ": no code with line numbers (-g) is of a file \"", place.source, "\""));
  }
  std::vector<uint32_t> nearest;
  if (before != 0) nearest.push_back(before);
  if (after != 0) nearest.push_back(after);
  return absl::NotFoundError(
      absl::StrCat(place.text, ": that line has no code; ",
                   nearest.size() == 1 ? "the nearest that has is " : "the nearest that have are ",
                   absl::StrJoin(nearest, " and ")));
}

absl::Status Symbols::NotFound(const CodePlace& place, const MemoryMap& map,
                               const SymbolSource& source) {
  if (place.is_address()) {
    return absl::NotFoundError(absl::StrCat(place.text, ": no code is mapped there"));
  }
  if (place.line != 0) return LineNotFound(place, map, source);
  const size_t limit = std::max<size_t>(1, place.function.size() / 4);
  std::set<std::pair<size_t, std::string>> near;  // by distance
  bool file_found = false;
  for (const MapRegion& region : map.regions()) {
    if (!MayHoldCode(region) || !IsNamed(region, place.file)) continue;
    file_found = true;
    for (const auto& [name, function] : FileOf(region, source).functions()) {
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
