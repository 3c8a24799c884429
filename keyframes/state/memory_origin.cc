#include "keyframes/state/memory_origin.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"

namespace hindsight {
namespace {

constexpr uint64_t kPlaceShift = 21;  // 2 MiB
constexpr uint64_t kMaxPlaces = 64;   // that a change is listed under
constexpr int64_t kErrnoNoMemory = 12;

// Newer than the headers of some hosts.
constexpr int64_t kProcessMadvise = 440;
constexpr uint64_t kMremapDontUnmap = 4;
constexpr uint64_t kDontNeedLocked = 24;
constexpr uint64_t kGuardInstall = 102;

uint64_t PageUp(uint64_t bytes) {
  return bytes > ~(kPageBytes - 1) ? ~(kPageBytes - 1)
                                   : (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

uint64_t Argument(const ProcessEvent& call, size_t index) {
  return index < call.arguments.size() ? call.arguments[index] : 0;
}

bool Failed(const ProcessEvent& call) { return call.result < 0 && call.result > -4096; }

// Private memory without a file. Other names in brackets are the kernel's own pages.
bool IsAnonymous(const MapRegion& region) {
  return !region.shared && region.inode == 0 &&
         (region.name.empty() || region.name == "[heap]" || region.name == "[stack]" ||
          absl::StartsWith(region.name, "[anon:"));
}

bool IsWritable(const MapRegion& region) { return (region.protection & PROT_WRITE) != 0; }

const MapRegion* FindIn(const std::vector<MapRegion>& maps, uint64_t address) {
  auto after = std::partition_point(maps.begin(), maps.end(), [address](const MapRegion& region) {
    return region.start <= address;
  });
  if (after == maps.begin() || std::prev(after)->end <= address) return nullptr;
  return &*std::prev(after);
}

struct Range {
  uint64_t start = 0;
  uint64_t end = 0;
};

// Empty: there is none.
Range HeapOf(const RegionList& maps) {
  Range heap;
  for (const MapRegion* region : maps) {
    if (region->name != "[heap]") continue;
    if (heap.end == 0) heap.start = region->start;
    heap.end = region->end;
  }
  return heap;
}

bool SameFile(const MapRegion& a, const MapRegion& b, uint64_t page) {
  return a.inode == b.inode && a.device_major == b.device_major &&
         a.device_minor == b.device_minor && a.shared == b.shared &&
         (a.inode == 0 || a.file_offset + (page - a.start) == b.file_offset + (page - b.start));
}

// Its rings are mapped as long as it is in use.
bool HasAsynchronousWrites(const MapRegion& region) {
  return absl::StartsWith(region.name, "anon_inode:[io_uring]") ||
         absl::StartsWith(region.name, "/[aio]");
}

}  // namespace

MemoryOrigins::MemoryOrigins(const TraceReader* trace, const ProcessState* process)
    : trace_(trace), process_(process) {
  if (trace->trimmed() != nullptr && trace->trimmed()->others_write) {
    others_write_.push_back({.begin = process->whole_moment()});
  }
  for (const auto& [number, calls] : process->syscalls()) {
    for (const TimelineEvent& call : calls) AddCall(call.moment, *call.event);
  }
  for (const TimelineEvent& fork : process->forks()) AddFork(fork.moment, *fork.event);
  for (const TimelineEvent& listed : process->events()) {
    if (listed.event->kind == EventKind::kMemoryUnknown) unknown_.push_back(listed.moment);
    if (listed.event->kind == EventKind::kFileChanged) changed_files_.insert(listed.event->number);
  }
  std::sort(unknown_.begin(), unknown_.end());
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const Change& a, const Change& b) { return a.moment < b.moment; });
  for (Interval& interval : others_write_) {
    for (const TimelineEvent& exec : process->execs()) {
      if (exec.moment >= interval.begin) interval.end = std::min(interval.end, exec.moment);
    }
  }
  IndexChanges();
}

void MemoryOrigins::AddCall(uint64_t moment, const ProcessEvent& call) {
  const Call made = {moment, call.thread};
  const auto start = static_cast<uint64_t>(call.result);
  switch (call.number) {
    case SYS_brk:
      AddBrk(made);
      return;
    case SYS_madvise:
      AddMadvise(made, call);
      return;
    default:
      break;
  }
  if (Failed(call)) return;
  switch (call.number) {
    case SYS_mmap:
      Add(made, start, Argument(call, 1), Contents::kFresh);
      break;
    case SYS_mremap:
      AddMremap(made, call);
      break;
    case SYS_munmap:
      Add(made, Argument(call, 0), Argument(call, 1), Contents::kOther);
      break;
    case SYS_shmdt:
      AddShmdt(made, Argument(call, 0));
      break;
    case SYS_remap_file_pages:
      Add(made, Argument(call, 0), Argument(call, 1), Contents::kUnknown);
      break;
    case SYS_io_setup:
    case SYS_io_uring_setup:
      others_write_.push_back({.begin = moment});
      break;
    case kProcessMadvise:
      unknown_.push_back(moment);
      break;
    default:
      break;
  }
}

// What the heap has that was not mapped before is fresh; what it lost is gone.
void MemoryOrigins::AddBrk(const Call& made) {
  if (made.moment == 0) return;
  if (process_->maps().IsSameAt(made.moment - 1, made.moment)) return;
  const std::shared_ptr<const RegionList> before = process_->maps().At(made.moment - 1);
  const Range heap = HeapOf(*process_->maps().At(made.moment)), heap_before = HeapOf(*before);
  const uint64_t lost = std::max(heap.end, heap_before.start);
  if (lost < heap_before.end) Add(made, lost, heap_before.end - lost, Contents::kOther);
  uint64_t start = heap.start;
  for (const MapRegion* region : *before) {
    if (region->end <= start || region->start >= heap.end) continue;
    if (region->start > start) Add(made, start, region->start - start, Contents::kFresh);
    start = region->end;
  }
  if (start < heap.end) Add(made, start, heap.end - start, Contents::kFresh);
}

void MemoryOrigins::AddMremap(const Call& made, const ProcessEvent& call) {
  const uint64_t from = Argument(call, 0), to = static_cast<uint64_t>(call.result);
  const uint64_t old_bytes = PageUp(Argument(call, 1)), new_bytes = PageUp(Argument(call, 2));
  if (from == to) {
    if (new_bytes > old_bytes) {
      Add(made, from + old_bytes, new_bytes - old_bytes, Contents::kFresh);
    }
    if (new_bytes < old_bytes) {
      Add(made, from + new_bytes, old_bytes - new_bytes, Contents::kOther);
    }
    return;
  }
  const bool stays = (Argument(call, 3) & kMremapDontUnmap) != 0;
  Add(made, from, old_bytes, stays ? Contents::kFresh : Contents::kOther);
  if (old_bytes == 0) {
    Add(made, to, new_bytes, Contents::kOther);  // a second mapping of the same memory
    return;
  }
  Add(made, to, std::min(old_bytes, new_bytes), Contents::kMoved, from);
  if (new_bytes > old_bytes) {
    Add(made, to + old_bytes, new_bytes - old_bytes, Contents::kFresh);
  }
}

void MemoryOrigins::AddMadvise(const Call& made, const ProcessEvent& call) {
  // With a hole in the range it is done for the rest and fails nevertheless.
  const bool in_part = call.result == -kErrnoNoMemory;
  if (Failed(call) && !in_part) return;
  switch (Argument(call, 2)) {
    case MADV_DONTNEED:
    case kDontNeedLocked:
      Add(made, Argument(call, 0), Argument(call, 1),
          in_part ? Contents::kUnknown : Contents::kFresh);
      break;
    case MADV_FREE:
    case MADV_REMOVE:
    case kGuardInstall:
      Add(made, Argument(call, 0), Argument(call, 1), Contents::kUnknown);
      break;
    default:
      break;
  }
}

// The call does not say how much there was.
void MemoryOrigins::AddShmdt(const Call& made, uint64_t start) {
  if (made.moment == 0) return;
  const MapRegion* const region = process_->maps().Find(made.moment - 1, start);
  if (region == nullptr || region->start != start) return;
  const size_t before = changes_.size();
  Add(made, start, region->end - start, Contents::kOther);
  if (changes_.size() > before) changes_.back().is_forgotten = false;
}

void MemoryOrigins::AddFork(uint64_t moment, const ProcessEvent& fork) {
  const auto kind = static_cast<ForkKind>(Argument(fork, 0));
  // What a recorded one does to its parent's memory is in the parent's trace. It is over by now.
  const bool recorded = Argument(fork, 1) != 0;
  if (kind == ForkKind::kVfork && !recorded) unknown_.push_back(moment);
  if (kind != ForkKind::kClone || fork.number == SYS_fork) return;
  // The C library's fork() is a clone, too: what it shares, its flags say.
  constexpr uint64_t kCloneVm = 0x100;
  bool shares = true;
  if (fork.arguments.size() > 2) {
    shares = (Argument(fork, 2) & kCloneVm) != 0;
  } else if (const auto calls = process_->syscalls().find(SYS_clone);
             fork.number == SYS_clone && calls != process_->syscalls().end()) {
    // Older recordings have them with the system call only.
    for (const TimelineEvent& call : calls->second) {
      if (call.event->thread != fork.thread || call.event->result != fork.result) continue;
      shares = (Argument(*call.event, 0) & kCloneVm) != 0;
    }
  }
  if (shares) others_write_.push_back({.begin = moment});
}

void MemoryOrigins::Add(const Call& made, uint64_t start, uint64_t bytes, Contents contents,
                        uint64_t source) {
  const uint64_t length = PageUp(bytes);
  if (length == 0 || start % kPageBytes != 0 || start + length < start) return;
  changes_.push_back({made.moment, start, start + length, contents, source, made.thread});
}

void MemoryOrigins::IndexChanges() {
  for (uint32_t i = 0; i < changes_.size(); ++i) {
    const uint64_t first = changes_[i].start >> kPlaceShift;
    const uint64_t last = (changes_[i].end - 1) >> kPlaceShift;
    if (last - first >= kMaxPlaces) {
      large_.push_back(i);
      continue;
    }
    for (uint64_t place = first; place <= last; ++place) by_place_[place].push_back(i);
  }
}

// The newest one of `page` that led to a moment in (after, moment].
const MemoryOrigins::Change* MemoryOrigins::LastChange(uint64_t moment, uint64_t after,
                                                       uint64_t page) const {
  const auto last_of = [&](const std::vector<uint32_t>& list) -> int64_t {
    auto it = std::partition_point(
        list.begin(), list.end(), [&](uint32_t index) { return changes_[index].moment <= moment; });
    while (it != list.begin()) {
      const Change& change = changes_[*--it];
      if (change.moment <= after) break;
      if (change.start <= page && page < change.end) return *it;
    }
    return -1;
  };
  int64_t newest = last_of(large_);
  if (auto it = by_place_.find(page >> kPlaceShift); it != by_place_.end()) {
    newest = std::max(newest, last_of(it->second));
  }
  return newest < 0 ? nullptr : &changes_[static_cast<size_t>(newest)];
}

std::optional<MemoryReplacement> MemoryOrigins::LastReplacement(uint64_t moment, uint64_t after,
                                                                uint64_t page) const {
  const Change* const change = LastChange(moment, after, page);
  // One that may have left what was there hides those before it.
  if (change == nullptr || change->contents == Contents::kUnknown) return std::nullopt;
  return MemoryReplacement{
      .moment = change->moment, .thread = change->thread, .is_forgotten = change->is_forgotten};
}

bool MemoryOrigins::FileIsUnchanged(int32_t module) const {
  if (module < 0 || changed_files_.contains(module)) return false;
  auto bytes = trace_->ModuleBytes(module);
  if (!bytes.ok()) return false;
  if (trace_->manifest().state == TraceState::kComplete) return true;
  return bytes->size() >= SELFMAG && std::memcmp(bytes->data(), ELFMAG, SELFMAG) == 0;
}

// A file that the trace has nothing of (memfd, deleted): whether it changes was not checked.
// Programs and libraries do not.
bool MemoryOrigins::MayBeRewritten(uint64_t moment, const MapRegion& region) const {
  if (region.inode == 0) return false;
  const std::shared_ptr<const RegionList> maps = process_->maps().At(moment);
  return std::none_of(maps->begin(), maps->end(), [&](const MapRegion* other) {
    return other->inode == region.inode && other->device_major == region.device_major &&
           other->device_minor == region.device_minor && (other->protection & PROT_EXEC) != 0;
  });
}

// The kernel writes where the program may write.
bool MemoryOrigins::OthersWrite(uint64_t moment, const MapRegion& region) const {
  if (region.inode != 0 && !region.shared && !IsWritable(region)) return false;
  const bool listed =
      std::any_of(others_write_.begin(), others_write_.end(), [moment](const Interval& interval) {
        return interval.begin <= moment && moment < interval.end;
      });
  if (listed) return true;
  const std::shared_ptr<const RegionList> maps = process_->maps().At(moment);
  return std::any_of(maps->begin(), maps->end(),
                     [](const MapRegion* mapped) { return HasAsynchronousWrites(*mapped); });
}

// The newest moment up to which the page may have been written without a record; 0: none.
uint64_t MemoryOrigins::LastUnknown(uint64_t moment, uint64_t page) const {
  auto it = std::upper_bound(unknown_.begin(), unknown_.end(), moment);
  while (it != unknown_.begin()) {
    --it;
    const MapRegion* then = process_->maps().FindWithStackGrowth(*it, page);
    if (then == nullptr || IsWritable(*then)) return *it;
  }
  return 0;
}

MemoryOrigin MemoryOrigins::Of(uint64_t moment, uint64_t page) const {
  const MapRegion* region = process_->maps().FindWithStackGrowth(moment, page);
  if (region == nullptr) {
    return process_->maps().IsEmptyAt(moment) ? WithoutMap(moment) : MemoryOrigin{.moment = moment};
  }
  const bool file_differs =
      region->module >= 0 ? !FileIsUnchanged(region->module) : MayBeRewritten(moment, *region);
  if (file_differs || (region->shared && region->module < 0) || OthersWrite(moment, *region)) {
    return {.kind = MemoryOrigin::Kind::kUnknown, .moment = moment};
  }
  MemoryOrigin origin = OfMapping(moment, page, *region);
  const uint64_t unknown = LastUnknown(moment, page);
  if (unknown > origin.moment) return {.kind = MemoryOrigin::Kind::kUnknown, .moment = unknown};
  return origin;
}

// The pages of the keyframe are all there is to go by.
MemoryOrigin MemoryOrigins::WithoutMap(uint64_t moment) const {
  const FullKeyframe* keyframe = process_->KeyframeAt(moment);
  if (keyframe != nullptr) return {.kind = MemoryOrigin::Kind::kKeyframe, .keyframe = keyframe};
  if (process_->LastExec(moment) != nullptr) return {};
  return {.kind = MemoryOrigin::Kind::kBirth};
}

// By the newest of: the page's mapping, a full keyframe, the process's birth.
MemoryOrigin MemoryOrigins::OfMapping(uint64_t moment, uint64_t page,
                                      const MapRegion& region) const {
  const uint64_t gap = process_->LastGapBefore(moment);
  const FullKeyframe* keyframe = process_->KeyframeAt(moment);
  const Snapshot* snapshot = process_->SnapshotAt(moment);
  const uint64_t kept = snapshot == nullptr ? 0 : snapshot->moment;
  if (const Change* change = LastChange(moment, std::max(kept, gap), page)) {
    if (change->contents == Contents::kMoved) {
      return {.kind = MemoryOrigin::Kind::kMoved,
              .moment = change->moment,
              .source = change->source + (page - change->start)};
    }
    if (change->contents != Contents::kFresh) {
      return {.kind = MemoryOrigin::Kind::kUnknown, .moment = change->moment};
    }
    const bool anonymous = IsAnonymous(region);
    if (!anonymous && region.module < 0) return {.moment = change->moment};
    return {.kind = anonymous ? MemoryOrigin::Kind::kZeros : MemoryOrigin::Kind::kFile,
            .moment = change->moment};
  }
  if (snapshot == nullptr || kept < gap) return {.moment = gap};
  const uint64_t exec = process_->LastExecMoment(moment);
  if (exec > kept) return {.moment = exec};
  return OfKeyframe(page, region, *snapshot, keyframe);
}

MemoryOrigin MemoryOrigins::OfKeyframe(uint64_t page, const MapRegion& region,
                                       const Snapshot& snapshot,
                                       const FullKeyframe* keyframe) const {
  const MapRegion* then = FindIn(keyframe->maps(), page);
  const bool born = &snapshot == &process_->snapshots().front() &&
                    trace_->manifest().parent_pid != 0 && snapshot.page_count == 0;
  if (then == nullptr) {
    // A stack grows by itself.
    const bool grown = region.name == "[stack]" && !keyframe->maps().empty();
    return {.kind = grown ? MemoryOrigin::Kind::kZeros : MemoryOrigin::Kind::kUnknown,
            .moment = snapshot.moment};
  }
  if (!SameFile(*then, region, page)) return {.moment = snapshot.moment};
  if (born) return {.kind = MemoryOrigin::Kind::kBirth, .moment = snapshot.moment};
  return {.kind = MemoryOrigin::Kind::kKeyframe,
          .moment = snapshot.moment,
          .keyframe = keyframe,
          .else_zeros = IsAnonymous(region) && IsAnonymous(*then) && keyframe->SawAllAt(page)};
}

}  // namespace hindsight
