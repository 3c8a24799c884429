#include "server/target/scratch_machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// How far a stack may grow below its lowest known page: Linux's default limit.
constexpr uint64_t kStackGrowthBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxHeapGrowthBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxMappingBytes = uint64_t{1} << 40;
// New mappings go far below where Linux puts anything and far above programs.
constexpr uint64_t kFirstMapping = uint64_t{0x1000} << 32;

uint64_t PageUp(uint64_t address) { return PageOf(address + kPageBytes - 1); }

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchMachine>> ScratchMachine::Create(std::vector<MapRegion> maps,
                                                                       MemorySource source) {
  auto machine =
      std::unique_ptr<ScratchMachine>(new ScratchMachine(std::move(maps), std::move(source)));
  ASSIGN_OR_RETURN(machine->cpu_, Cpu::Create(machine.get()));
  return machine;
}

const MapRegion* ScratchMachine::RegionOf(uint64_t address) const {
  for (const MapRegion& region : maps_) {
    uint64_t growth = region.name == "[stack]" ? std::min(kStackGrowthBytes, region.start) : 0;
    if (address >= region.start - growth && address < region.end) return &region;
  }
  return nullptr;
}

// Copies `page` from the recording. Anonymous memory that nobody has written to, as far as the
// recording shows, is zero, as the kernel supplies it.
bool ScratchMachine::Fetch(uint64_t page) {
  std::vector<uint8_t> bytes(kPageBytes);
  size_t known = source_(page, absl::MakeSpan(bytes));
  if (known < kPageBytes) {
    const MapRegion* region = RegionOf(page);
    bool anonymous = region != nullptr && region->inode == 0 && !region->shared &&
                     (region->protection & PROT_WRITE);
    if (!anonymous) return false;
    std::fill(bytes.begin() + known, bytes.end(), 0);
    for (uint64_t line = known / kLineBytes * kLineBytes; line < kPageBytes; line += kLineBytes) {
      source_(page + line, absl::MakeSpan(bytes).subspan(line, kLineBytes));
    }
  }
  std::memcpy(cpu_->HostPage(page), bytes.data(), kPageBytes);
  cpu_->SetRights(page, PageRights::kRead);
  cpu_->ContentsChanged(page);
  return true;
}

bool ScratchMachine::OnMissing(uint64_t page, Access access) {
  if (const MapRegion* region = RegionOf(page)) {
    uint32_t needed = access == Access::kWrite     ? PROT_WRITE
                      : access == Access::kExecute ? PROT_EXEC
                                                   : PROT_READ;
    if ((region->protection & needed) == 0) return false;
  }
  if (!Fetch(page)) return false;
  if (access != Access::kWrite) return true;
  if (!OnFirstWrite(page)) return false;
  cpu_->SetRights(page, PageRights::kReadWrite);
  return true;
}

bool ScratchMachine::OnFirstWrite(uint64_t page) {
  const MapRegion* region = RegionOf(page);
  if (region != nullptr && (region->protection & PROT_WRITE) == 0) return false;
  const uint8_t* bytes = cpu_->HostPage(page);
  old_pages_.try_emplace(page, bytes, bytes + kPageBytes);
  return true;
}

size_t ScratchMachine::ReadMemory(uint64_t address, absl::Span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    uint64_t at = address + done;
    size_t size = std::min<uint64_t>(out.size() - done, PageOf(at) + kPageBytes - at);
    absl::Span<uint8_t> part = out.subspan(done, size);
    if (cpu_->rights(PageOf(at)) == PageRights::kNone) {
      size_t known = source_(at, part);
      done += known;
      if (known < size) break;
    } else if (cpu_->ReadHeld(at, part)) {
      done += size;
    } else {
      break;
    }
  }
  return done;
}

absl::Status ScratchMachine::Hold(uint64_t address, uint64_t size) {
  if (size == 0) return absl::OkStatus();
  if (address + (size - 1) < address) {
    return absl::NotFoundError("there is no memory after the end of the address space");
  }
  for (uint64_t page = PageOf(address), last = PageOf(address + size - 1);; page += kPageBytes) {
    if (cpu_->rights(page) == PageRights::kNone && !Fetch(page)) {
      return absl::NotFoundError(absl::StrFormat("there is no memory at %#x", page));
    }
    if (page == last) return absl::OkStatus();
  }
}

absl::Status ScratchMachine::WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) {
  // All or nothing: first all pages, then the bytes.
  RETURN_IF_ERROR(Hold(address, bytes.size()));
  while (!bytes.empty()) {
    uint64_t page = PageOf(address);
    size_t size = std::min<uint64_t>(bytes.size(), page + kPageBytes - address);
    std::memcpy(cpu_->HostPage(page) + (address - page), bytes.data(), size);
    cpu_->ContentsChanged(page);
    address += size;
    bytes.remove_prefix(size);
  }
  return absl::OkStatus();
}

std::vector<uint64_t> ScratchMachine::PagesWritten() const {
  std::vector<uint64_t> pages;
  for (const auto& [page, contents] : old_pages_) pages.push_back(page);
  return pages;
}

void ScratchMachine::Checkpoint() {
  cpu_->ProtectWrites(PagesWritten());
  old_pages_.clear();
  saved_ = cpu_->Save();
}

void ScratchMachine::RollBack() {
  for (const auto& [page, contents] : old_pages_) {
    std::memcpy(cpu_->HostPage(page), contents.data(), kPageBytes);
    cpu_->ContentsChanged(page);
  }
  cpu_->ProtectWrites(PagesWritten());
  old_pages_.clear();
  cpu_->Restore(*saved_);
}

int64_t ScratchMachine::MoveBreak(uint64_t end) {
  for (MapRegion& region : maps_) {
    if (region.name != "[heap]") continue;
    bool free = std::none_of(maps_.begin(), maps_.end(), [&](const MapRegion& other) {
      return other.start >= region.end && other.start < end;
    });
    if (end > region.end && end - region.end < kMaxHeapGrowthBytes && free) {
      region.end = PageUp(end);
      return static_cast<int64_t>(end);
    }
    return static_cast<int64_t>(region.end);
  }
  return -ENOMEM;
}

int64_t ScratchMachine::Protect(uint64_t start, uint64_t size, uint32_t protection) {
  const uint64_t end = start + PageUp(size);
  std::vector<MapRegion> changed;
  for (MapRegion& region : maps_) {
    const MapRegion whole = region;
    const uint64_t from = std::max(start, whole.start), to = std::min(end, whole.end);
    if (from >= to) continue;
    // What lies before and after keeps its rights.
    if (from > whole.start) (changed.emplace_back(whole)).end = from;
    if (to < whole.end) (changed.emplace_back(whole)).start = to;
    region.start = from;
    region.end = to;
    region.protection = protection;
  }
  maps_.insert(maps_.end(), changed.begin(), changed.end());
  return 0;
}

int64_t ScratchMachine::MapAnonymous(uint64_t size, uint32_t protection) {
  if (size == 0 || size > kMaxMappingBytes) return -ENOMEM;
  size = PageUp(size);
  uint64_t start = kFirstMapping;
  for (const MapRegion& region : maps_) {
    if (region.start < start + size && region.end > start) start = region.end;
  }
  maps_.push_back({.start = start, .end = start + size, .protection = protection});
  return static_cast<int64_t>(start);
}

}  // namespace hindsight
