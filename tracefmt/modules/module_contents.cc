#include "tracefmt/modules/module_contents.h"

#include <elf.h>

#include <cstring>

#include "tracefmt/records.h"

namespace hindsight {

void ModuleContents::AddPages(absl::Span<const uint8_t> bytes) {
  if (pages.empty())
    elf = bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
  uint8_t last[kPageBytes];
  for (uint64_t offset = 0; offset < bytes.size(); offset += kPageBytes) {
    absl::Span<const uint8_t> page = bytes.subspan(offset, kPageBytes);
    if (page.size() < kPageBytes) {  // in memory, zeros follow the end of a file
      std::memset(last, 0, sizeof(last));
      std::memcpy(last, page.data(), page.size());
      page = last;
    }
    pages.push_back(PageIndex::HashOf(page));
  }
}

bool ModuleContents::HasPage(uint64_t offset, absl::Span<const uint8_t> page) const {
  return offset / kPageBytes < pages.size() &&
         pages[offset / kPageBytes] == PageIndex::HashOf(page);
}

}  // namespace hindsight
