#include "recorder/ptrace/whole/shared_frames.h"

#include <fcntl.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "recorder/process/pagemap.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// The rest of an entry says who else has the page.
constexpr uint64_t kCompared = kPagemapPresent | kPagemapSwapped | kPagemapFile | kPagemapFrame;

constexpr uint64_t kBatch = 4096;

bool ReadEntries(int pagemap, uint64_t start, uint64_t count, std::vector<uint64_t>* entries) {
  entries->resize(count);
  return ReadPagemap(pagemap, start, entries->data(), count) == count;
}

bool IsFrame(uint64_t entry) {
  return (entry & (kPagemapPresent | kPagemapSwapped)) != 0 && (entry & kPagemapFile) == 0 &&
         (entry & kPagemapFrame) != 0;
}

int OpenPagemap(pid_t process) {
  return open(absl::StrCat("/proc/", process, "/pagemap").c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

SharedFrames::SharedFrames(pid_t process, pid_t earlier)
    : process_(OpenPagemap(process)), earlier_(OpenPagemap(earlier)) {}

std::vector<bool> SharedFrames::Find(uint64_t start, uint64_t end) const {
  std::vector<bool> shared((end - start) / kPageBytes);
  std::vector<uint64_t> own, before, after;
  for (uint64_t page = 0; page < shared.size(); page += kBatch) {
    const uint64_t count = std::min<uint64_t>(kBatch, shared.size() - page);
    const uint64_t address = start + page * kPageBytes;
    // The kernel moves pages about, and so may put one where another was: what `earlier` has was
    // there while that of the process was looked at.
    if (!ReadEntries(earlier_.get(), address, count, &before) ||
        !ReadEntries(process_.get(), address, count, &own) ||
        !ReadEntries(earlier_.get(), address, count, &after)) {
      return std::vector<bool>(shared.size());
    }
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t entry = own[i] & kCompared;
      shared[page + i] =
          IsFrame(entry) && entry == (before[i] & kCompared) && entry == (after[i] & kCompared);
    }
  }
  return shared;
}

}  // namespace hindsight
