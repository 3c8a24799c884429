#include "recorder/symbols/debug_file.h"

#include <gelf.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hindsight {

std::string DebugFileOf(Elf* elf) {
  constexpr char kDebugDirectory[] = "/usr/lib/debug/.build-id/";
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_NOTE) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    GElf_Nhdr note;
    size_t name = 0, description = 0;
    if (data == nullptr || gelf_getnote(data, 0, &note, &name, &description) == 0) continue;
    if (note.n_type != NT_GNU_BUILD_ID || note.n_descsz < 2) continue;
    const absl::string_view id(static_cast<const char*>(data->d_buf) + description, note.n_descsz);
    return absl::StrCat(kDebugDirectory, absl::BytesToHexString(id.substr(0, 1)), "/",
                        absl::BytesToHexString(id.substr(1)), ".debug");
  }
  return "";
}

}  // namespace hindsight
