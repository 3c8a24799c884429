// What is known of the bytes of a file that a trace stores, as they were when it was read.

#ifndef HINDSIGHT_TRACEFMT_MODULES_MODULE_CONTENTS_H_
#define HINDSIGHT_TRACEFMT_MODULES_MODULE_CONTENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tracefmt/storage/page_index.h"

namespace hindsight {

struct ModuleContents {
  uint64_t size_bytes = 0;
  std::string hash;  // empty: too large to be stored
  std::string build_id;
  bool elf = false;
  std::vector<PageIndex::Hash> pages;  // of each; none if they are not stored

  // Takes what comes next, whole pages but for the file's end.
  void AddPages(absl::Span<const uint8_t> bytes);
  // Whether `page`, kPageBytes as in memory, is what is stored at `offset`, a multiple of that.
  bool HasPage(uint64_t offset, absl::Span<const uint8_t> page) const;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MODULES_MODULE_CONTENTS_H_
