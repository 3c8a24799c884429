#include "recorder/translate/stream/translated_process.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "isa/decoder.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {

TranslatedProcess::TranslatedProcess(ProcessLog* log, Show show, OnMade on_made, Adjust adjust)
    : log_(log),
      show_(std::move(show)),
      on_made_(std::move(on_made)),
      adjust_(std::move(adjust)),
      maps_path_(absl::StrCat("/proc/", log->pid(), "/maps")) {}

// All of it without a range. Without regions: the process is gone, or nothing is mapped there.
MapPart TranslatedProcess::ReadMap(std::optional<AddressSpace::Range> range) const {
  MapPart part = {0, ~uint64_t{0}, {}};
  std::optional<std::vector<MapRegion>> regions;
  if (range.has_value()) regions = ReadRegions(maps_path_, range->start, range->end);
  if (regions.has_value()) {
    part.start = range->start;
    part.end = range->end;
  } else {
    regions = MemoryMap::OfProcess(maps_path_).regions();
  }
  part.regions = *std::move(regions);
  return Shown(std::move(part));
}

MapPart TranslatedProcess::Shown(MapPart part) const {
  std::vector<MapRegion> shown;
  for (const MapRegion& region : part.regions) {
    if (std::optional<MapRegion> seen = show_(region)) shown.push_back(*std::move(seen));
  }
  part.regions = std::move(shown);
  return part;
}

// Of regions that are known and reach over the part's ends, since another thread has changed them
// before it was read, by a call that comes later, the rest stays until then.
MapPart TranslatedProcess::WithRest(MapPart part) const {
  const MapRegion* const last = space_.Find(part.end);
  if (last != nullptr && last->start < part.end) {
    MapRegion rest = *last;
    if (rest.inode != 0) rest.file_offset += part.end - rest.start;
    rest.start = part.end;
    part.end = rest.end;
    part.regions.push_back(std::move(rest));
  }
  const MapRegion* const first = space_.Find(part.start);
  if (first != nullptr && first->start < part.start) {
    MapRegion rest = *first;
    rest.end = part.start;
    part.start = rest.start;
    part.regions.insert(part.regions.begin(), std::move(rest));
  }
  return part;
}

absl::Status TranslatedProcess::Apply(MapPart part, ThreadLog* log, uint64_t count) {
  const bool whole = part.start == 0 && part.end == ~uint64_t{0};
  if (whole && part.regions.empty()) return absl::OkStatus();  // gone
  RETURN_IF_ERROR(log_->RegisterFiles(absl::MakeSpan(part.regions), whole));
  if (!space_.Trim(&part)) return absl::OkStatus();
  space_.Replace(part);
  if (log == nullptr) {
    log_->SkipMapChange();
  } else {
    log_->LogMapChange(part, space_, log, count);
  }
  return absl::OkStatus();
}

HostFeatures TranslatedProcess::needed() const {
  HostFeatures all = needed_;
  if (code_ != nullptr) all.Add(code_->needed());
  return all;
}

absl::Status TranslatedProcess::OnBegin(const TraceWriter::ThreadState& state, ThreadLog* log) {
  if (log_->full_keyframes() != 0) return absl::OkStatus();
  RETURN_IF_ERROR(Apply(ReadMap(std::nullopt), nullptr, 0));
  return WriteKeyframe(state, log, log_->HasOwnMemoryAtBirth());
}

absl::Status TranslatedProcess::OnExec(const TraceWriter::ThreadState& state, ThreadLog* log) {
  RETURN_IF_ERROR(Apply(ReadMap(std::nullopt), nullptr, 0));
  log_->LogWholeMap(space_, log, state.count);
  return WriteKeyframe(state, log, /*with_memory=*/true);
}

absl::Status TranslatedProcess::OnStanding(std::vector<TraceWriter::ThreadState> states,
                                           const Stop& stop, ThreadLog* log) {
  std::optional<SnapshotReason> snapshot;
  if (stop.trigger != 0) {
    if (on_snapshot_) snapshot = on_snapshot_(stop, log->thread());
    if (!snapshot.has_value()) return absl::OkStatus();
    snapshot->skew_ns = stop.stood_ns;
  }
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(Apply(ReadMap(std::nullopt), nullptr, 0));
  KeyframeHead head = {.sequence = log->sequence(),
                       .threads = std::move(states),
                       .auxv = AuxiliaryVector(log_->pid())};
  head.snapshot = std::move(snapshot);
  head.stood = [start, stood_ns = stop.stood_ns]() -> uint64_t {
    return stood_ns + std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  };
  uint64_t count = 0;
  for (const TraceWriter::ThreadState& state : head.threads) {
    if (state.thread == log->thread()) count = state.count;
  }
  return log_->WriteFullKeyframe(std::move(head), log->thread(), count, space_.map(),
                                 /*with_memory=*/true);
}

bool TranslatedProcess::ReadPage(pid_t thread, uint64_t address, uint8_t* bytes) const {
  return ProcessVmMemory(thread).Read(address, absl::MakeSpan(bytes, kPageBytes));
}

absl::Status TranslatedProcess::WriteKeyframe(const TraceWriter::ThreadState& state, ThreadLog* log,
                                              bool with_memory) {
  KeyframeHead head = {
      .sequence = log->sequence(), .threads = {state}, .auxv = AuxiliaryVector(log_->pid())};
  return log_->WriteFullKeyframe(std::move(head), state.thread, state.count, space_.map(),
                                 with_memory);
}

bool TranslatedProcess::OnChild(MadeProcess* made) {
  const bool recorded = on_made_ && on_made_(made);
  has_children_ |= !recorded;
  return recorded;
}

// The process, which goes on, may be gone by now.
void TranslatedProcess::OnLeft(HsEndReason reason, uint64_t pc) {
  left_ = reason;
  if (reason != HS_END_INSTRUCTION || code_ == nullptr) return;
  std::vector<uint8_t> code;
  while (code.size() < ZYDIS_MAX_INSTRUCTION_LENGTH) {
    const uint64_t address = pc + code.size();
    const auto page = code_->Find(address - address % kPageBytes);
    if (page == nullptr) break;
    code.push_back(page->bytes[address % kPageBytes]);
  }
  left_before_ = absl::StrFormat("%s at 0x%x", Disassembly(pc, code), pc);
}

// What takes long, to store files, is not waited for: they are open, whatever happens to their
// names.
bool TranslatedProcess::ReadChange(int64_t number, const uint64_t* arguments, int64_t result,
                                   uint64_t map_read) {
  if (!MayChangeMap(number)) return false;
  if (map_read != 0 && map_reads_ != nullptr) {
    change_ = map_reads_->Take(map_read);
    if (change_.has_value()) {
      change_->part = WithRest(Shown(std::move(change_->part)));
      log_->OpenFiles(change_->part.regions);
      return true;
    }
  }
  std::optional<AddressSpace::Range> range;
  if (const auto changed = ChangedMapRange(number, arguments, result)) {
    range = space_.Around(changed->address, changed->address + changed->size);
  }
  change_ = MapRead{.part = ReadMap(range)};
  log_->OpenFiles(change_->part.regions);
  return true;
}

absl::Status TranslatedProcess::OnCall(uint64_t count, ThreadLog* log) {
  if (!change_.has_value()) return absl::OkStatus();
  return Apply(std::exchange(change_, std::nullopt)->part, log, count);
}

}  // namespace hindsight
