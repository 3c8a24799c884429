#include "recorder/log/full_keyframe.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/populated_pages.h"
#include "recorder/process/process_memory.h"

namespace hindsight {
namespace {

class KeyframeMemory {
 public:
  KeyframeMemory(pid_t process, const ModuleTable& modules, TraceWriter* writer)
      : modules_(modules),
        writer_(writer),
        populated_(absl::StrCat("/proc/", process, "/pagemap")),
        memory_(process) {}

  absl::Status AddRegion(const MapRegion& region) {
    if (region.shared || region.name == "[vvar]" || region.name == "[vvar_vclock]" ||
        region.name == "[vsyscall]") {
      return absl::OkStatus();
    }
    // It may become readable later.
    const auto populated = populated_.Find(region.start, region.end);
    if (!populated.has_value()) {
      unseen_.emplace_back(region.start, region.end);
      return absl::OkStatus();
    }
    const bool may_change = modules_.MayChange(region);
    const bool in_trace = !may_change && modules_.Unchanged(region);
    uint64_t page = region.start;
    for (const PopulatedRange& range : *populated) {
      // As good as not populated.
      if ((in_trace || may_change) && !range.own_copy) continue;
      if (in_trace) RETURN_IF_ERROR(AddReferences(region, page, range.start));
      if (may_change) Leave(page, range.start);
      for (page = range.start; page < range.end; page += kPageBytes) {
        RETURN_IF_ERROR(AddContents(page));
      }
    }
    if (may_change) Leave(page, region.end);
    return in_trace ? AddReferences(region, page, region.end) : absl::OkStatus();
  }

  absl::Status Finish() { return writer_->DeclareComplete(unseen_); }

 private:
  // It may be something else by now.
  void Leave(uint64_t start, uint64_t end) {
    if (start < end) unseen_.emplace_back(start, end);
  }

  absl::Status AddReferences(const MapRegion& region, uint64_t from, uint64_t to) {
    for (uint64_t page = from; page < to; page += kPageBytes) {
      const uint64_t offset = region.file_offset + (page - region.start);
      RETURN_IF_ERROR(writer_->AddModulePage(page, region.module, offset));
    }
    return absl::OkStatus();
  }

  absl::Status AddContents(uint64_t page) {
    uint8_t bytes[kPageBytes];
    // A page after the end of its file is not there.
    if (!memory_.Read(page, bytes)) {
      unseen_.emplace_back(page, page + kPageBytes);
      return absl::OkStatus();
    }
    return writer_->AddPage(page, bytes);
  }

  const ModuleTable& modules_;
  TraceWriter* const writer_;
  PopulatedPages populated_;
  ProcMemFile memory_;
  std::vector<std::pair<uint64_t, uint64_t>> unseen_;
};

}  // namespace

absl::Status WriteFullKeyframe(const KeyframeHead& head, pid_t process, const MemoryMap& map,
                               const ModuleTable& modules, TraceWriter* writer) {
  RETURN_IF_ERROR(writer->BeginFullKeyframe(head.number, head.sequence, head.threads, map.regions(),
                                            head.auxv));
  RETURN_IF_ERROR(AddProcessMemory(process, map, modules, writer));
  return writer->FinishFullKeyframe();
}

absl::Status WriteKeyframeAtBirth(const KeyframeHead& head, const MemoryMap& map,
                                  TraceWriter* writer) {
  RETURN_IF_ERROR(writer->BeginFullKeyframe(head.number, head.sequence, head.threads, map.regions(),
                                            head.auxv));
  return writer->FinishFullKeyframe();
}

absl::Status AddProcessMemory(pid_t process, const MemoryMap& map, const ModuleTable& modules,
                              TraceWriter* writer) {
  KeyframeMemory memory(process, modules, writer);
  for (const MapRegion& region : map.regions()) RETURN_IF_ERROR(memory.AddRegion(region));
  return memory.Finish();
}

}  // namespace hindsight
