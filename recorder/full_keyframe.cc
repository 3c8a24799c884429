#include "recorder/full_keyframe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "recorder/populated_ranges.h"

namespace hindsight {
namespace {

// Bits of an entry of /proc/PID/pagemap.
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kSwapped = uint64_t{1} << 62;
constexpr uint64_t kFilePage = uint64_t{1} << 61;

// Pages looked at together.
constexpr uint64_t kBatchPages = 512;

class KeyframeMemory {
 public:
  KeyframeMemory(const Tracee& tracee, const ModuleTable& modules, TraceWriter* writer)
      : tracee_(tracee),
        modules_(modules),
        writer_(writer),
        pagemap_(open(tracee.ProcPath("pagemap").c_str(), O_RDONLY | O_CLOEXEC)) {}

  absl::Status AddRegion(const MapRegion& region) {
    if (region.shared || (region.protection & PROT_READ) == 0 || region.name == "[vvar]" ||
        region.name == "[vvar_vclock]" || region.name == "[vsyscall]") {
      return absl::OkStatus();
    }
    // A file's pages count whether or not they are in memory now.
    if (region.inode != 0) return AddRange(region, {region.start, region.end});
    for (const AddressRange& range : PopulatedRanges(pagemap_.get(), region.start, region.end)) {
      RETURN_IF_ERROR(AddRange(region, range));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddRange(const MapRegion& region, const AddressRange& range) {
    for (uint64_t page = range.start; page < range.end; page += kBatchPages * kPageBytes) {
      const uint64_t pages = std::min(kBatchPages, (range.end - page) / kPageBytes);
      RETURN_IF_ERROR(AddBatch(region, page, pages));
    }
    return absl::OkStatus();
  }

  absl::Status AddBatch(const MapRegion& region, uint64_t first, uint64_t pages) {
    const bool in_trace = region.module >= 0 && modules_.Unchanged(region);
    uint64_t entries[kBatchPages];
    const bool known = pread(pagemap_.get(), entries, pages * sizeof(uint64_t),
                             static_cast<off_t>(first / kPageBytes * sizeof(uint64_t))) ==
                       static_cast<ssize_t>(pages * sizeof(uint64_t));
    for (uint64_t i = 0; i < pages; ++i) {
      const uint64_t page = first + i * kPageBytes;
      const uint64_t entry = known ? entries[i] : kPresent;
      const bool own_copy = (entry & (kPresent | kSwapped)) != 0 && (entry & kFilePage) == 0;
      if (!own_copy && in_trace) {
        RETURN_IF_ERROR(writer_->AddModulePage(page, region.module,
                                               region.file_offset + (page - region.start)));
      } else if (own_copy || region.inode != 0 || (entry & kPresent) != 0) {
        RETURN_IF_ERROR(AddContents(page));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddContents(uint64_t page) {
    uint8_t bytes[kPageBytes];
    // Behind the end of its file a page cannot be read: it is not there.
    if (!tracee_.Read(page, absl::MakeSpan(bytes))) return absl::OkStatus();
    return writer_->AddPage(page, bytes);
  }

  const Tracee& tracee_;
  const ModuleTable& modules_;
  TraceWriter* const writer_;
  UniqueFd pagemap_;
};

}  // namespace

absl::Status AddProcessMemory(const Tracee& tracee, const MemoryMap& map,
                              const ModuleTable& modules, TraceWriter* writer) {
  KeyframeMemory memory(tracee, modules, writer);
  for (const MapRegion& region : map.regions()) RETURN_IF_ERROR(memory.AddRegion(region));
  return absl::OkStatus();
}

}  // namespace hindsight
