#include "recorder/emulate/process_image.h"

#include <sys/mman.h>

#include <cstdio>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "recorder/process/foreign_mappings.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {

ProcessImage::ProcessImage(RecordingSession* session, ProcessLog* log, const MemorySharing* sharing)
    : session_(session),
      log_(log),
      sharing_(sharing),
      program_(log->manifest().program),
      space_(MakeSpace()) {}

void ProcessImage::OnExec(std::string program) {
  program_ = std::move(program);
  space_ = MakeSpace();
  log_->SkipMapChange();
  vdso_patches_.clear();
  commit_area_.reset();
}

absl::StatusOr<std::vector<uint64_t>> ProcessImage::UnpatchVdso(pid_t thread) {
  std::vector<uint64_t> pages;
  for (const VdsoPatch& patch : vdso_patches_) pages.push_back(patch.address & ~(kPageBytes - 1));
  ProcMemFile memory(thread);
  RETURN_IF_ERROR(RestoreVdso(vdso_patches_, &memory));
  vdso_patches_.clear();
  return pages;
}

absl::Status ProcessImage::Open(Tracee* tracee) {
  auxv_ = AuxiliaryVector(tracee->thread());
  RETURN_IF_ERROR(ReloadMap(tracee, nullptr, 0));
  ProcMemFile memory(tracee->thread());
  ASSIGN_OR_RETURN(std::vector<VdsoPatch> patches, PatchVdso(space_->map(), &memory));
  if (!patches.empty()) vdso_patches_ = std::move(patches);
  if (!session_->attached()) return absl::OkStatus();
  InstallCommitArea(tracee->thread());
  return ReloadMap(tracee, nullptr, 0);
}

// A process that was launched dies with its recorder; one that was attached to must survive it.
void ProcessImage::InstallCommitArea(pid_t thread) {
  // After vfork the memory is the parent's.
  const pid_t parent = log_->manifest().parent_pid;
  if (parent != 0 && SharesMemory(parent, thread, /*otherwise=*/true)) return;
  absl::StatusOr<std::unique_ptr<CommitArea>> area =
      absl::UnavailableError("there is no room for that in its vdso");
  if (const auto call = FindVdsoCall(vdso_patches_)) area = CommitArea::Install(thread, *call);
  if (area.ok()) {
    commit_area_ = *std::move(area);
    return;
  }
  std::fprintf(
      stderr, "hindsight: %s (process %d) may crash if this recorder is killed with SIGKILL: %s\n",
      Printable(program_).c_str(), log_->pid(), std::string(area.status().message()).c_str());
}

// The whole map if there is no range. A result without regions: the process is gone, or nothing is
// mapped there.
MapPart ProcessImage::ReadMap(Tracee* tracee, std::optional<MemoryRange> range) const {
  const std::string path = tracee->ProcPath("maps");
  // Those it shares its memory with may have changed more.
  if (range.has_value() && sharing_->own() && space_->region_count() > 0) {
    const auto [start, end] = space_->Around(range->address, range->address + range->size);
    if (auto regions = ReadRegions(path, start, end)) return {start, end, *std::move(regions)};
  }
  return {0, ~uint64_t{0}, MemoryMap::OfProcess(path).regions()};
}

absl::Status ProcessImage::ReloadMap(Tracee* tracee, ThreadLog* log, uint64_t count,
                                     std::optional<MemoryRange> range) {
  MapPart part = ReadMap(tracee, range);
  const bool whole = part.start == 0 && part.end == ~uint64_t{0};
  if (whole && part.regions.empty()) return absl::OkStatus();  // gone: the next stop will report it
  RETURN_IF_ERROR(log_->RegisterFiles(absl::MakeSpan(part.regions), whole));
  session_->foreign_mappings().Update(part.regions, log_->pid(), session_->NowNs());
  if (space_->Trim(&part)) {
    space_->Replace(part);
    if (log == nullptr) {
      log_->SkipMapChange();
    } else {
      log_->LogMapChange(part, *space_, log, count);
    }
    FindPlaces(tracee->thread());
  }
  FollowForeignMappings();
  return absl::OkStatus();
}

// Places are in code; which functions a library chooses may change with how files are mapped.
void ProcessImage::FindPlaces(pid_t thread) {
  std::vector<MapRegion> code;
  MemoryMap map = space_->map();
  for (MapRegion& region : map.mutable_regions()) {
    const bool executable = (region.protection & PROT_EXEC) != 0;
    if (region.inode != 0 || executable) code.push_back(std::move(region));
  }
  if (code == placed_code_) return;
  placed_code_ = std::move(code);
  const std::vector<uint64_t> stops = session_->part().StopPlaces(thread, *space_);
  stop_places_ = absl::flat_hash_set<uint64_t>(stops.begin(), stops.end());
  breakpoints_ = stop_places_;
  if (!session_->triggers().has_places()) return;
  snapshot_places_ = session_->triggers().Places(thread, *space_);
  for (const auto& [place, name] : snapshot_places_) breakpoints_.insert(place);
}

std::shared_ptr<AddressSpace> ProcessImage::MakeSpace() const {
  return std::make_shared<AddressSpace>(
      [foreign = &session_->foreign_mappings()](const MapRegion& region) {
        return foreign->MayWrite(region);
      });
}

void ProcessImage::FollowForeignMappings() {
  if (!space_->has_shared()) return;
  if (session_->foreign_mappings().IsDue(session_->NowNs())) {
    session_->foreign_mappings().Update(space_->map().regions(), log_->pid(), session_->NowNs());
  }
  if (session_->foreign_mappings().version() == foreign_version_) return;
  foreign_version_ = session_->foreign_mappings().version();
  space_->UpdateChangedElsewhere();
}

}  // namespace hindsight
