#include "recorder/process/populated_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "recorder/process/pagemap.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// include/uapi/linux/fs.h of Linux 6.7, newer than the headers of some hosts.
struct PageRegion {
  uint64_t start, end, categories;
};
struct ScanArguments {
  uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);
constexpr uint64_t kIsFile = 1 << 2;
constexpr uint64_t kIsPresent = 1 << 3;
constexpr uint64_t kIsSwapped = 1 << 4;
constexpr uint64_t kIsZeros = 1 << 5;

// Ranges, or entries, fetched in one system call. Of more ranges than this a scan may not say where
// it ended.
constexpr size_t kBatch = 512;

void Append(const PopulatedRange& range, std::vector<PopulatedRange>* ranges) {
  if (!ranges->empty() && ranges->back().end == range.start &&
      ranges->back().own_copy == range.own_copy) {
    ranges->back().end = range.end;
  } else {
    ranges->push_back(range);
  }
}

ScanArguments ScanFor(uint64_t start, uint64_t end, PageRegion* found, size_t most) {
  ScanArguments arguments = {};
  arguments.size = sizeof(arguments);
  arguments.start = start;
  arguments.end = end;
  arguments.vec = reinterpret_cast<uint64_t>(found);
  arguments.vec_len = most;
  arguments.category_anyof_mask = kIsPresent | kIsSwapped;
  arguments.return_mask = kIsPresent | kIsSwapped | kIsFile;
  return arguments;
}

}  // namespace

PopulatedPages::PopulatedPages(const std::string& pagemap_path, Method method)
    : pagemap_(open(pagemap_path.c_str(), O_RDONLY | O_CLOEXEC)), method_(method) {}

std::optional<std::vector<PopulatedRange>> PopulatedPages::Find(uint64_t start, uint64_t end) {
  std::vector<PopulatedRange> ranges;
  if (method_ == Method::kScan) {
    if (Scan(start, end, &ranges)) return ranges;
    method_ = Method::kRead;  // the kernel is older
    ranges.clear();
  }
  if (end - start > kLongestRead || !Read(start, end, &ranges)) return std::nullopt;
  return ranges;
}

bool PopulatedPages::HasContents(uint64_t start, uint64_t end) const {
  if (method_ != Method::kScan) return false;
  PageRegion found;
  ScanArguments arguments = ScanFor(start, end, &found, 1);
  arguments.max_pages = 1;
  arguments.category_inverted = kIsZeros;
  arguments.category_mask = kIsZeros;
  int count;
  while ((count = ioctl(pagemap_.get(), kPagemapScan, &arguments)) < 0 && errno == EINTR) {
  }
  return count > 0;
}

bool PopulatedPages::Scan(uint64_t start, uint64_t end, std::vector<PopulatedRange>* ranges) {
  PageRegion found[kBatch];
  while (start < end) {
    ScanArguments arguments = ScanFor(start, end, found, kBatch);
    const int count = ioctl(pagemap_.get(), kPagemapScan, &arguments);
    if (count < 0 && errno == EINTR) continue;  // the recorder's own ticks
    if (count < 0) return false;
    for (int i = 0; i < count; ++i) {
      Append({found[i].start, found[i].end, (found[i].categories & kIsFile) == 0}, ranges);
    }
    if (arguments.walk_end <= start) return false;
    start = arguments.walk_end;
  }
  return true;
}

bool PopulatedPages::Read(uint64_t start, uint64_t end, std::vector<PopulatedRange>* ranges) {
  uint64_t entries[kBatch];
  while (start < end) {
    const uint64_t wanted = std::min<uint64_t>(kBatch, (end - start) / kPageBytes);
    const uint64_t got = ReadPagemap(pagemap_.get(), start, entries, wanted);
    if (got == 0) return false;
    for (size_t i = 0; i < got; ++i, start += kPageBytes) {
      if ((entries[i] & (kPagemapPresent | kPagemapSwapped)) == 0) continue;
      Append({start, start + kPageBytes, (entries[i] & kPagemapFile) == 0}, ranges);
    }
  }
  return true;
}

}  // namespace hindsight
