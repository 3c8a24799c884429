#include "recorder/restore/restored_memory.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/memory_map.h"
#include "recorder/restore/mapped_file.h"

namespace hindsight {
namespace {

constexpr uint64_t kLowest = 0x10000;  // vm.mmap_min_addr, at most
constexpr uint64_t kEndOfMemory = 0x7ffffffff000;
// Written at once.
constexpr uint64_t kRunBytes = 256 * 1024;
// Pages on both sides of the bootstrap that stay free: stacks grow, and the kernel keeps a gap.
constexpr uint64_t kMarginBytes = uint64_t{16} << 20;

bool IsKernels(const MapRegion& region) {
  return absl::StartsWith(region.name, "[vvar") || region.name == "[vdso]" ||
         region.name == "[vsyscall]" || region.start >= kEndOfMemory;
}

bool IsNamedAnonymous(const MapRegion& region) {
  return region.inode == 0 || absl::StartsWith(region.name, "[") ||
         absl::StartsWith(region.name, "/dev/zero");
}

class MemoryRestorer {
 public:
  MemoryRestorer(const TraceReader& trace, const FullKeyframe& keyframe,
                 const ControlFile& control_file, Remote* remote, RestoreNotes* notes)
      : keyframe_(keyframe),
        control_file_(control_file),
        remote_(*remote),
        notes_(*notes),
        files_(trace) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Clear());
    RETURN_IF_ERROR(PlaceVdso());
    for (const MapRegion& region : keyframe_.maps()) {
      if (IsKernels(region)) continue;
      RETURN_IF_ERROR(Restore(region));
    }
    for (const auto& [inode, fd] : shared_) RETURN_IF_ERROR(Close(fd));
    return absl::OkStatus();
  }

 private:
  absl::Status Clear() {
    const uint64_t end = remote_.address() + Remote::kBytes;
    RETURN_IF_ERROR(remote_.Call("munmap", SYS_munmap, {0, remote_.address()}).status());
    return remote_.Call("munmap", SYS_munmap, {end, kEndOfMemory - end}).status();
  }

  absl::Status PlaceVdso();
  absl::Status Restore(const MapRegion& region);
  absl::Status Map(const MapRegion& region, uint64_t protection, uint64_t flags, int64_t fd) {
    const uint64_t offset = fd < 0 ? 0 : region.file_offset;
    const std::string what = absl::StrCat("mapping ", region.name, " at ", absl::Hex(region.start));
    return remote_
        .Call(what, SYS_mmap,
              {region.start, region.end - region.start, protection,
               flags | MAP_FIXED_NOREPLACE | MAP_NORESERVE, static_cast<uint64_t>(fd), offset})
        .status();
  }
  absl::Status Close(int64_t fd) {
    return remote_.Call("close", SYS_close, {static_cast<uint64_t>(fd)}).status();
  }
  absl::StatusOr<int64_t> Open(const std::string& path, uint64_t flags) {
    ASSIGN_OR_RETURN(const uint64_t name, remote_.PutText(0, path));
    ASSIGN_OR_RETURN(const uint64_t fd, remote_.Call(path, SYS_openat,
                                                     {static_cast<uint64_t>(int64_t{AT_FDCWD}),
                                                      name, flags | O_CLOEXEC, 0}));
    return static_cast<int64_t>(fd);
  }
  absl::Status MapFile(const MapRegion& region, const std::string& path, bool shared);
  absl::Status MapShared(const MapRegion& region);
  absl::Status Protect(const MapRegion& region) {
    return remote_
        .Call("mprotect", SYS_mprotect,
              {region.start, region.end - region.start, region.protection})
        .status();
  }
  enum class Present { kZeros, kFile, kUnknown };
  absl::Status Fill(const MapRegion& region, Present what, absl::Span<const uint8_t> file = {});
  absl::Status Write(uint64_t address, absl::Span<const uint8_t> bytes);
  bool SeenAll(const MapRegion& region) const {
    for (uint64_t page = region.start; page < region.end; page += kPageBytes) {
      if (!keyframe_.SawAllAt(page)) return false;
    }
    return true;
  }

  const FullKeyframe& keyframe_;
  const ControlFile& control_file_;
  Remote& remote_;
  RestoreNotes& notes_;
  MappedFiles files_;
  std::map<std::pair<uint64_t, uint64_t>, int64_t> shared_;  // device, inode -> descriptor
};

absl::Status MemoryRestorer::PlaceVdso() {
  uint64_t start = ~uint64_t{0};
  std::vector<MapRegion> wanted;
  for (const MapRegion& region : keyframe_.maps()) {
    if (!IsKernels(region) || region.name == "[vsyscall]") continue;
    wanted.push_back(region);
    start = std::min(start, region.start);
  }
  if (wanted.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(
      remote_.Call("placing the vdso", SYS_arch_prctl, {ARCH_MAP_VDSO_64, start}).status());
  const MemoryMap now = MemoryMap::OfProcess(absl::StrCat("/proc/", remote_.process(), "/maps"));
  const auto differs = absl::FailedPreconditionError(
      "this kernel's vdso is not that of the snapshot: it was taken with another kernel");
  for (const MapRegion& region : wanted) {
    const MapRegion* const found = now.Find(region.start);
    if (found == nullptr || found->end != region.end || found->name != region.name) return differs;
    if (region.name != "[vdso]") continue;
    std::vector<uint8_t> stored(kPageBytes), present(kPageBytes);
    for (uint64_t page = region.start; page < region.end; page += kPageBytes) {
      if (!keyframe_.ReadPage(page, absl::MakeSpan(stored)).ok()) continue;
      if (!remote_.memory().Read(page, absl::MakeSpan(present)) || stored != present) {
        return differs;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryRestorer::MapFile(const MapRegion& region, const std::string& path,
                                     bool shared) {
  const bool writes = shared && (region.protection & PROT_WRITE) != 0;
  ASSIGN_OR_RETURN(const int64_t fd, Open(path, writes ? O_RDWR : O_RDONLY));
  RETURN_IF_ERROR(Map(region, region.protection, shared ? MAP_SHARED : MAP_PRIVATE, fd));
  return Close(fd);
}

// Mappings of one file in memory remain mappings of one.
absl::Status MemoryRestorer::MapShared(const MapRegion& region) {
  const uint64_t device = uint64_t{region.device_major} << 32 | region.device_minor;
  const auto [it, is_new] = shared_.try_emplace({device, region.inode}, -1);
  if (is_new) {
    ASSIGN_OR_RETURN(const uint64_t name, remote_.PutText(0, "restored"));
    ASSIGN_OR_RETURN(const uint64_t fd,
                     remote_.Call("memfd_create", SYS_memfd_create, {name, MFD_CLOEXEC}));
    it->second = static_cast<int64_t>(fd);
    uint64_t end = 0;
    for (const MapRegion& other : keyframe_.maps()) {
      if (other.inode != region.inode || other.device_minor != region.device_minor) continue;
      end = std::max(end, other.file_offset + (other.end - other.start));
    }
    RETURN_IF_ERROR(remote_.Call("ftruncate", SYS_ftruncate, {fd, end}).status());
  }
  RETURN_IF_ERROR(Map(region, PROT_READ | PROT_WRITE, MAP_SHARED, it->second));
  RETURN_IF_ERROR(Fill(region, Present::kZeros));
  if (!SeenAll(region)) {
    notes_.lost.push_back(absl::StrCat("shared memory at ", absl::Hex(region.start), " (",
                                       region.name, "): the snapshot does not have all of it"));
  }
  return Protect(region);
}

absl::Status MemoryRestorer::Restore(const MapRegion& region) {
  if (region.name == kControlFileName) {
    if (!control_file_.path.empty()) {
      return MapFile(region, control_file_.path, control_file_.shared);
    }
    return Map(region, region.protection, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  }
  if (!IsNamedAnonymous(region) && files_.Unchanged(region)) {
    RETURN_IF_ERROR(MapFile(region, region.name, region.shared));
    // Of a shared one the file is what it holds.
    if (region.shared) return absl::OkStatus();
    const absl::Span<const uint8_t> bytes = files_.StoredBytes(region);
    return Fill(region, bytes.empty() ? Present::kUnknown : Present::kFile, bytes);
  }
  if (region.shared && (region.inode != 0)) {
    notes_.different.push_back(absl::StrCat("memory at ", absl::Hex(region.start), " (",
                                            region.name, ") is not shared with others any more"));
    return MapShared(region);
  }
  if (!IsNamedAnonymous(region)) {
    notes_.different.push_back(
        absl::StrCat(region.name, " has changed; its memory is that of the snapshot"));
  }
  const uint64_t grows = region.name == "[stack]" ? MAP_GROWSDOWN : 0;
  RETURN_IF_ERROR(Map(region, region.protection, MAP_PRIVATE | MAP_ANONYMOUS | grows, -1));
  return Fill(region, Present::kZeros);
}

absl::Status MemoryRestorer::Write(uint64_t address, absl::Span<const uint8_t> bytes) {
  if (bytes.empty() || remote_.memory().Write(address, bytes)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("memory at ", absl::Hex(address), " cannot be written"));
}

// Pages that hold already what they should stay untouched. `file`: the bytes of the one that is
// mapped there.
absl::Status MemoryRestorer::Fill(const MapRegion& region, Present what,
                                  absl::Span<const uint8_t> file) {
  const absl::Span<const uint64_t> pages = keyframe_.page_addresses();
  std::vector<uint8_t> run;
  uint64_t run_start = 0;
  std::vector<uint8_t> page(kPageBytes), there(kPageBytes);
  auto next = std::lower_bound(pages.begin(), pages.end(), region.start);
  for (; next != pages.end() && *next < region.end; ++next) {
    RETURN_IF_ERROR(keyframe_.ReadPage(*next, absl::MakeSpan(page)));
    std::fill(there.begin(), there.end(), 0);
    const uint64_t offset = region.file_offset + (*next - region.start);
    if (offset < file.size()) {
      const uint64_t bytes = std::min<uint64_t>(kPageBytes, file.size() - offset);
      std::memcpy(there.data(), file.data() + offset, bytes);
    }
    if (what != Present::kUnknown && page == there) continue;
    if (*next != run_start + run.size() || run.size() >= kRunBytes) {
      RETURN_IF_ERROR(Write(run_start, run));
      run.clear();
      run_start = *next;
    }
    run.insert(run.end(), page.begin(), page.end());
  }
  return Write(run_start, run);
}

}  // namespace

absl::StatusOr<uint64_t> PlaceForBootstrap(const FullKeyframe& keyframe, pid_t process) {
  std::vector<std::pair<uint64_t, uint64_t>> used;
  for (const MapRegion& region : keyframe.maps()) used.emplace_back(region.start, region.end);
  const MemoryMap now = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  for (const MapRegion& region : now.regions()) used.emplace_back(region.start, region.end);
  used.emplace_back(kEndOfMemory, ~uint64_t{0});
  std::sort(used.begin(), used.end());
  uint64_t end = kLowest;
  for (const auto& [start, next_end] : used) {
    if (start > end && start - end >= Remote::kBytes + 2 * kMarginBytes) return end + kMarginBytes;
    end = std::max(end, next_end);
  }
  return absl::ResourceExhaustedError("the process has no free addresses");
}

std::vector<uint8_t> ControlFileOf(const FullKeyframe& keyframe) {
  std::vector<uint8_t> bytes;
  for (const MapRegion& region : keyframe.maps()) {
    if (region.name != kControlFileName || region.file_offset != 0) continue;
    bytes.resize(region.end - region.start);
    for (uint64_t at = 0; at < bytes.size(); at += kPageBytes) {
      const absl::Span<uint8_t> page = absl::MakeSpan(bytes).subspan(at, kPageBytes);
      // A page that nobody has touched is not in the snapshot.
      if (!keyframe.ReadPage(region.start + at, page).ok()) std::fill(page.begin(), page.end(), 0);
    }
    break;
  }
  return bytes;
}

absl::Status RestoreMemory(const TraceReader& trace, const FullKeyframe& keyframe,
                           const ControlFile& control_file, Remote* remote, RestoreNotes* notes) {
  return MemoryRestorer(trace, keyframe, control_file, remote, notes).Run();
}

}  // namespace hindsight
