#include "recorder/full_keyframe.h"

#include <sys/mman.h>

#include "base/status_macros.h"
#include "recorder/populated_pages.h"

namespace hindsight {
namespace {

class KeyframeMemory {
 public:
  KeyframeMemory(const Tracee& tracee, const ModuleTable& modules, TraceWriter* writer)
      : tracee_(tracee),
        modules_(modules),
        writer_(writer),
        populated_(tracee.ProcPath("pagemap")) {}

  absl::Status AddRegion(const MapRegion& region) {
    if (region.shared || (region.protection & PROT_READ) == 0 || region.name == "[vvar]" ||
        region.name == "[vvar_vclock]" || region.name == "[vsyscall]") {
      return absl::OkStatus();
    }
    const bool in_trace = region.module >= 0 && modules_.Unchanged(region);
    uint64_t page = region.start;
    for (const PopulatedRange& range : populated_.Find(region.start, region.end)) {
      if (in_trace && !range.own_copy) continue;  // as good as not populated
      if (in_trace) RETURN_IF_ERROR(AddReferences(region, page, range.start));
      for (page = range.start; page < range.end; page += kPageBytes) {
        RETURN_IF_ERROR(AddContents(page));
      }
    }
    return in_trace ? AddReferences(region, page, region.end) : absl::OkStatus();
  }

 private:
  absl::Status AddReferences(const MapRegion& region, uint64_t from, uint64_t to) {
    for (uint64_t page = from; page < to; page += kPageBytes) {
      const uint64_t offset = region.file_offset + (page - region.start);
      RETURN_IF_ERROR(writer_->AddModulePage(page, region.module, offset));
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
  PopulatedPages populated_;
};

}  // namespace

absl::Status AddProcessMemory(const Tracee& tracee, const MemoryMap& map,
                              const ModuleTable& modules, TraceWriter* writer) {
  KeyframeMemory memory(tracee, modules, writer);
  for (const MapRegion& region : map.regions()) RETURN_IF_ERROR(memory.AddRegion(region));
  return absl::OkStatus();
}

}  // namespace hindsight
