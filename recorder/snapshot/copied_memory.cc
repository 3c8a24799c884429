#include "recorder/snapshot/copied_memory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/pace/idle_pace.h"
#include "recorder/process/populated_pages.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/whole/shared_frames.h"
#include "recorder/snapshot/wanted_memory.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// Read in one call.
constexpr uint64_t kChunkBytes = 1 << 20;

class CopiedMemory {
 public:
  CopiedMemory(const Capture& capture, pid_t earlier, const ModuleTable& modules,
               TraceWriter* writer)
      : capture_(capture),
        modules_(modules),
        writer_(writer),
        populated_(absl::StrCat("/proc/", capture.copy->pid(), "/pagemap")),
        memory_(capture.copy->pid()),
        chunk_(kChunkBytes) {
    if (earlier != 0) frames_.emplace(capture.copy->pid(), earlier);
  }

  absl::Status AddRegion(const MapRegion& region) {
    if (absl::StartsWith(region.name, "[vvar") || region.name == "[vsyscall]") {
      return absl::OkStatus();
    }
    if (region.shared) return AddShared(region);
    // The kernel's own pages, which do not count as populated until they are used.
    if (region.name == "[vdso]") return AddContents(region.start, region.end);
    for (const SharedMemory::Withheld& withheld : capture_.shared.withheld()) {
      if (withheld.region.start <= region.start && region.end <= withheld.region.end) {
        return AddWithheld(withheld, region);
      }
    }
    const auto populated = populated_.Find(region.start, region.end);
    if (!populated.has_value()) {
      unseen_.emplace_back(region.start, region.end);
      return absl::OkStatus();
    }
    const bool in_trace = region.module >= 0 && modules_.Unchanged(region);
    uint64_t page = region.start;
    for (const PopulatedRange& range : *populated) {
      if (in_trace && !range.own_copy) continue;  // as good as not populated
      if (in_trace) RETURN_IF_ERROR(AddReferences(region, page, range.start));
      RETURN_IF_ERROR(AddRange(region, range.start, range.end));
      page = range.end;
    }
    return in_trace ? AddReferences(region, page, region.end) : absl::OkStatus();
  }

  // Not wanted: it is not known.
  void Leave(const MapRegion& region) { unseen_.emplace_back(region.start, region.end); }
  absl::Status Finish() { return writer_->DeclareComplete(unseen_); }

 private:
  absl::Status AddReferences(const MapRegion& region, uint64_t from, uint64_t to) {
    for (uint64_t page = from; page < to; page += kPageBytes) {
      const uint64_t offset = region.file_offset + (page - region.start);
      RETURN_IF_ERROR(writer_->AddModulePage(page, region.module, offset));
    }
    return absl::OkStatus();
  }

  absl::Status AddShared(const MapRegion& region) {
    for (const uint64_t page : capture_.shared.PagesIn(region.start, region.end)) {
      RETURN_IF_ERROR(writer_->AddPage(page, {capture_.shared.Find(page), kPageBytes}));
    }
    return absl::OkStatus();
  }

  absl::Status AddWithheld(const SharedMemory::Withheld& withheld, const MapRegion& part) {
    if (!withheld.whole) unseen_.emplace_back(part.start, part.end);
    return AddShared(part);
  }

  // A device's memory may change without anybody's writing to a page.
  static bool IsAnonymous(const MapRegion& region) {
    return region.inode == 0 && !absl::StartsWith(region.name, "[v");
  }

  // Reads what has changed since the keyframe before.
  absl::Status AddRange(const MapRegion& region, uint64_t start, uint64_t end) {
    if (!frames_.has_value() || !IsAnonymous(region)) return AddContents(start, end);
    const std::vector<bool> shared = frames_->Find(start, end);
    uint64_t changed = start;  // from here on, up to the page
    for (uint64_t page = start; page < end; page += kPageBytes) {
      if (!shared[(page - start) / kPageBytes] || !writer_->HadPage(page)) continue;
      RETURN_IF_ERROR(AddContents(changed, page));
      RETURN_IF_ERROR(writer_->AddUnchangedPage(page));
      changed = page + kPageBytes;
    }
    return AddContents(changed, end);
  }

  absl::Status AddContents(uint64_t start, uint64_t end) {
    for (uint64_t from = start; from < end; from += kChunkBytes) {
      const uint64_t to = std::min(end, from + kChunkBytes);
      if (capture_.pace != nullptr) capture_.pace->Spend(to - from);
      const bool whole =
          memory_.Read(from, absl::MakeSpan(chunk_).subspan(0, static_cast<size_t>(to - from)));
      for (uint64_t page = from; page < to; page += kPageBytes) {
        const auto bytes = absl::MakeSpan(chunk_).subspan(page - from, kPageBytes);
        // A page after the end of its file is not there.
        if (!whole && !memory_.Read(page, bytes)) {
          unseen_.emplace_back(page, page + kPageBytes);
          continue;
        }
        RETURN_IF_ERROR(writer_->AddPage(page, bytes));
      }
    }
    return absl::OkStatus();
  }

  const Capture& capture_;
  const ModuleTable& modules_;
  TraceWriter* const writer_;
  PopulatedPages populated_;
  std::optional<SharedFrames> frames_;
  const ProcMemFile memory_;  // whatever the rights of the pages
  std::vector<uint8_t> chunk_;
  std::vector<std::pair<uint64_t, uint64_t>> unseen_;
};

}  // namespace

absl::Status AddCopiedMemory(const Capture& capture, pid_t earlier, const MemoryMap& map,
                             const ModuleTable& modules, TraceWriter* writer) {
  CopiedMemory memory(capture, earlier, modules, writer);
  const WantedMemory wanted = WantedMemory::Of(capture, map);
  for (const MapRegion& region : map.regions()) {
    for (const auto& [part, is_wanted] : wanted.Parts(region)) {
      if (is_wanted) {
        RETURN_IF_ERROR(memory.AddRegion(part));
      } else {
        memory.Leave(part);
      }
    }
  }
  return memory.Finish();
}

}  // namespace hindsight
