#include "recorder/snapshot/copied_memory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
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

// Read in one call: a step of the pace.
constexpr uint64_t kChunkBytes = IdlePace::kStepBytes;

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
    if (region.name == "[vdso]") return AddRange(region, region.start, region.end);
    for (const SharedMemory::Withheld& withheld : capture_.shared.withheld()) {
      if (withheld.region.start <= region.start && region.end <= withheld.region.end) {
        return AddWithheld(withheld, region);
      }
    }
    uint64_t from = region.start;
    for (const AddressRange& written : capture_.written.ranges()) {
      const uint64_t start = std::max(from, written.start), end = std::min(region.end, written.end);
      if (start >= end) continue;
      RETURN_IF_ERROR(AddCopied(region, from, start));
      RETURN_IF_ERROR(AddWritten(start, end));
      from = end;
    }
    return AddCopied(region, from, region.end);
  }

  // It is not known: not wanted, or not read in time.
  void Leave(uint64_t start, uint64_t end) {
    if (start < end) unseen_.emplace_back(start, end);
  }
  absl::Status Finish() { return writer_->DeclareComplete(unseen_); }

 private:
  // Runs work for a chunk at the capture's pace.
  absl::Status InStep(absl::FunctionRef<absl::Status()> work) {
    if (capture_.pace == nullptr) return work();
    absl::Status status;
    capture_.pace->Run([&] { status = work(); });
    return status;
  }

  // A part of `region` that the copy has.
  absl::Status AddCopied(const MapRegion& region, uint64_t start, uint64_t end) {
    const auto populated = populated_.Find(start, end);
    if (!populated.has_value()) {
      unseen_.emplace_back(start, end);
      return absl::OkStatus();
    }
    if (modules_.MayChange(region)) return AddChanging(region, *populated, start, end);
    const bool in_trace = modules_.Unchanged(region);
    uint64_t page = start;
    for (const PopulatedRange& range : *populated) {
      if (in_trace && !range.own_copy) continue;  // as good as not populated
      if (in_trace) RETURN_IF_ERROR(AddReferences(region, page, range.start));
      RETURN_IF_ERROR(AddRange(region, range.start, range.end));
      page = range.end;
    }
    return in_trace ? AddReferences(region, page, end) : absl::OkStatus();
  }

  // A file's pages are the file's, which may have changed since: those that were read in time.
  absl::Status AddChanging(const MapRegion& region, const std::vector<PopulatedRange>& populated,
                           uint64_t start, uint64_t end) {
    uint64_t page = start;
    for (const PopulatedRange& range : populated) {
      if (!range.own_copy) continue;
      RETURN_IF_ERROR(AddRead(page, range.start));
      RETURN_IF_ERROR(AddRange(region, range.start, range.end));
      page = range.end;
    }
    return AddRead(page, end);
  }

  absl::Status AddRead(uint64_t start, uint64_t end) {
    for (const uint64_t page : capture_.shared.pieces().PagesIn(start, end)) {
      Leave(start, page);
      RETURN_IF_ERROR(writer_->AddPage(page, {capture_.shared.pieces().Find(page), kPageBytes}));
      start = page + kPageBytes;
    }
    Leave(start, end);
    return absl::OkStatus();
  }

  absl::Status AddReferences(const MapRegion& region, uint64_t from, uint64_t to) {
    for (uint64_t page = from; page < to; page += kPageBytes) {
      const uint64_t offset = region.file_offset + (page - region.start);
      RETURN_IF_ERROR(writer_->AddModulePage(page, region.module, offset));
    }
    return absl::OkStatus();
  }

  absl::Status AddShared(const MapRegion& region) {
    const std::vector<uint64_t> pages = capture_.shared.pieces().PagesIn(region.start, region.end);
    constexpr size_t kPages = kChunkBytes / kPageBytes;
    for (size_t first = 0; first < pages.size(); first += kPages) {
      RETURN_IF_ERROR(InStep([&] {
        for (const uint64_t page : absl::MakeConstSpan(pages).subspan(first, kPages)) {
          RETURN_IF_ERROR(
              writer_->AddPage(page, {capture_.shared.pieces().Find(page), kPageBytes}));
        }
        return absl::OkStatus();
      }));
    }
    return absl::OkStatus();
  }

  absl::Status AddWritten(uint64_t start, uint64_t end) {
    for (uint64_t from = start; from < end; from += kChunkBytes) {
      RETURN_IF_ERROR(InStep([&] {
        for (uint64_t page = from; page < std::min(end, from + kChunkBytes); page += kPageBytes) {
          RETURN_IF_ERROR(writer_->AddPage(page, {capture_.written.Find(page), kPageBytes}));
        }
        return absl::OkStatus();
      }));
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

  absl::Status AddRange(const MapRegion& region, uint64_t start, uint64_t end) {
    for (uint64_t from = start; from < end; from += kChunkBytes) {
      const uint64_t to = std::min(end, from + kChunkBytes);
      RETURN_IF_ERROR(InStep([&] { return AddPart(region, from, to); }));
    }
    return absl::OkStatus();
  }

  // Reads what has changed since the keyframe before.
  absl::Status AddPart(const MapRegion& region, uint64_t start, uint64_t end) {
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

  // Requires: at most a chunk.
  absl::Status AddContents(uint64_t start, uint64_t end) {
    if (start == end) return absl::OkStatus();
    const bool whole =
        memory_.Read(start, absl::MakeSpan(chunk_).subspan(0, static_cast<size_t>(end - start)));
    for (uint64_t page = start; page < end; page += kPageBytes) {
      const auto bytes = absl::MakeSpan(chunk_).subspan(page - start, kPageBytes);
      // A page after the end of its file is not there.
      if (!whole && !memory_.Read(page, bytes)) {
        unseen_.emplace_back(page, page + kPageBytes);
        continue;
      }
      RETURN_IF_ERROR(writer_->AddPage(page, bytes));
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
        memory.Leave(part.start, part.end);
      }
    }
  }
  return memory.Finish();
}

}  // namespace hindsight
