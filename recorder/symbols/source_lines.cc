#include "recorder/symbols/source_lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "recorder/symbols/debug_file.h"

namespace hindsight {
namespace {

struct DwarfCloser {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};
using DwarfPointer = std::unique_ptr<Dwarf, DwarfCloser>;

// The innermost function at `address`, inlined ones included, by the offset of its entry; 0: none
// is known.
uint64_t FunctionAt(Dwarf_Die* unit, uint64_t address) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes(unit, address, &scopes);
  uint64_t found = 0;
  for (int i = 0; i < count && found == 0; ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
      found = dwarf_dieoffset(&scopes[i]);
    }
  }
  if (count > 0) free(scopes);
  return found;
}

class LineSearch {
 public:
  LineSearch(const std::string& source, uint32_t line) : source_(source), line_(line) {}

  void Read(Dwarf* dwarf) {
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
      if (HasSource(&die)) ReadUnit(&die);
    }
  }
  const LineCode& code() const { return code_; }

 private:
  bool IsSource(const char* file) const {
    const absl::string_view path = file == nullptr ? "" : file;
    return path == source_ || absl::EndsWith(path, absl::StrCat("/", source_));
  }

  bool HasSource(Dwarf_Die* unit) const {
    Dwarf_Files* files = nullptr;
    size_t count = 0;
    if (dwarf_getsrcfiles(unit, &files, &count) != 0) return false;
    for (size_t i = 0; i < count; ++i) {
      if (IsSource(dwarf_filesrc(files, i, nullptr, nullptr))) return true;
    }
    return false;
  }

  void ReadUnit(Dwarf_Die* unit) {
    Dwarf_Lines* lines = nullptr;
    size_t count = 0;
    if (dwarf_getsrclines(unit, &lines, &count) != 0) return;
    std::map<uint64_t, uint64_t> first;  // by function
    for (size_t i = 0; i < count; ++i) {
      Dwarf_Line* const entry = dwarf_onesrcline(lines, i);
      bool begins = false, ends = false;
      int number = 0;
      Dwarf_Addr address = 0;
      dwarf_linebeginstatement(entry, &begins);
      dwarf_lineendsequence(entry, &ends);
      dwarf_lineno(entry, &number);
      dwarf_lineaddr(entry, &address);
      // Functions that the linker has left out are at 0.
      if (!begins || ends || number <= 0 || address == 0) continue;
      if (!IsSource(dwarf_linesrc(entry, nullptr, nullptr))) continue;
      Note(static_cast<uint32_t>(number));
      if (static_cast<uint32_t>(number) != line_) continue;
      const uint64_t function = FunctionAt(unit, address);
      const auto [found, added] = first.try_emplace(function, address);
      if (!added) found->second = std::min<uint64_t>(found->second, address);
    }
    for (const auto& [function, address] : first) code_.addresses.insert(address);
  }

  void Note(uint32_t line) {
    code_.known_source = true;
    if (line < line_) code_.before = std::max(code_.before, line);
    if (line > line_) code_.after = code_.after == 0 ? line : std::min(code_.after, line);
  }

  const std::string& source_;
  const uint32_t line_;
  LineCode code_;
};

}  // namespace

LineCode FindLine(const std::string& elf_path, const std::string& source, uint32_t line) {
  LineSearch search(source, line);
  std::string path = elf_path;
  for (int i = 0; i < 2 && !path.empty() && !search.code().known_source; ++i) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) break;
    if (const DwarfPointer dwarf(dwarf_begin(fd.get(), DWARF_C_READ)); dwarf != nullptr) {
      search.Read(dwarf.get());
      path = DebugFileOf(dwarf_getelf(dwarf.get()));
    } else if (Elf* const elf = elf_begin(fd.get(), ELF_C_READ, nullptr); elf != nullptr) {
      path = DebugFileOf(elf);
      elf_end(elf);
    } else {
      break;
    }
  }
  return search.code();
}

}  // namespace hindsight
