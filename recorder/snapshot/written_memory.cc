#include "recorder/snapshot/written_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/pagemap.h"
#include "recorder/process/populated_pages.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// One range fewer saves the call that has it forgotten (some 20 us).
constexpr size_t kMostRanges = 32;
constexpr uint64_t kLeastPages = 16;
// So many pages between two that were written are read with them.
constexpr uint64_t kMostBetween = 8;
// Which of the pages are left out at a turn: one megabyte in sixteen.
constexpr uint64_t kTurnBytes = 1 << 20;
constexpr uint64_t kTurns = 16;

constexpr uint64_t kBatch = 4096;

bool IsCandidate(const MapRegion& region) {
  constexpr uint32_t kBoth = PROT_READ | PROT_WRITE;
  return !region.shared && region.inode == 0 && (region.protection & kBoth) == kBoth &&
         !absl::StartsWith(region.name, "[v") && !absl::StartsWith(region.name, "/");
}

uint64_t SizeOf(const AddressRange& range) { return range.end - range.start; }

class WrittenRanges {
 public:
  WrittenRanges(pid_t process, uint64_t turn)
      : pagemap_(OpenPagemap(process)), turn_(turn % kTurns) {}

  static UniqueFd OpenPagemap(pid_t process) {
    return UniqueFd(
        open(absl::StrCat("/proc/", process, "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  }

  // All pages of it are populated, or swapped out.
  void AddPopulated(uint64_t start, uint64_t end) {
    entries_.resize(kBatch);
    for (uint64_t at = start; at < end;) {
      const uint64_t wanted = std::min(kBatch, (end - at) / kPageBytes);
      const uint64_t got = ReadPagemap(pagemap_.get(), at, entries_.data(), wanted);
      if (got == 0) break;
      for (uint64_t i = 0; i < got; ++i, at += kPageBytes) AddPage(at, entries_[i]);
    }
    EndRange();
  }

  // The largest, as far as they fit, ascending.
  std::vector<AddressRange> Choose(uint64_t most_bytes) {
    std::vector<AddressRange> chosen;
    std::sort(ranges_.begin(), ranges_.end(),
              [](const AddressRange& a, const AddressRange& b) { return SizeOf(a) > SizeOf(b); });
    for (AddressRange range : ranges_) {
      range.end = std::min(range.end, range.start + most_bytes / kPageBytes * kPageBytes);
      if (chosen.size() == kMostRanges || SizeOf(range) < kLeastPages * kPageBytes) break;
      most_bytes -= SizeOf(range);
      chosen.push_back(range);
    }
    std::sort(chosen.begin(), chosen.end(),
              [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
    return chosen;
  }

 private:
  void AddPage(uint64_t page, uint64_t entry) {
    if ((entry & kPagemapPresent) == 0 || page / kTurnBytes % kTurns == turn_) return EndRange();
    if ((entry & kPagemapExclusive) == 0) {
      if (page - range_.end >= kMostBetween * kPageBytes) EndRange();
      return;
    }
    if (range_.end == 0) range_.start = page;
    range_.end = page + kPageBytes;
  }

  void EndRange() {
    if (SizeOf(range_) >= kLeastPages * kPageBytes) ranges_.push_back(range_);
    range_ = {};
  }

  const UniqueFd pagemap_;
  const uint64_t turn_;
  std::vector<uint64_t> entries_;
  AddressRange range_;                // so far
  std::vector<AddressRange> ranges_;  // that are long enough
};

// Reading a page that is not there could wait for the process itself (userfaultfd).
bool IsPresent(int pagemap, const AddressRange& range) {
  std::vector<uint64_t> entries(SizeOf(range) / kPageBytes);
  return ReadPagemap(pagemap, range.start, entries.data(), entries.size()) == entries.size() &&
         std::all_of(entries.begin(), entries.end(),
                     [](uint64_t entry) { return (entry & kPagemapPresent) != 0; });
}

}  // namespace

WrittenMemory WrittenMemory::Plan(pid_t process, uint64_t turn, uint64_t most_bytes,
                                  BlockPool* pool) {
  WrittenMemory written;
  written.pieces_ = MemoryPieces(pool);
  if (most_bytes == 0) return written;
  PopulatedPages populated(absl::StrCat("/proc/", process, "/pagemap"));
  WrittenRanges ranges(process, turn);
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  for (const MapRegion& region : map.regions()) {
    if (!IsCandidate(region)) continue;
    const auto found = populated.Find(region.start, region.end);
    if (!found.has_value()) continue;
    for (const PopulatedRange& range : *found) ranges.AddPopulated(range.start, range.end);
  }
  for (const AddressRange& range : ranges.Choose(most_bytes)) {
    Planned planned = {.range = range};
    if (!written.pieces_.Reserve(range.start, range.end, &planned.chunks)) break;
    written.planned_.push_back(std::move(planned));
  }
  return written;
}

void WrittenMemory::Read(pid_t process) {
  const UniqueFd pagemap = WrittenRanges::OpenPagemap(process);
  std::vector<MemoryPieces::Chunk> chunks;
  for (const Planned& planned : planned_) {
    if (!IsPresent(pagemap.get(), planned.range)) continue;
    chunks.insert(chunks.end(), planned.chunks.begin(), planned.chunks.end());
    read_.push_back(planned.range);
  }
  // What is not known from here is known from the copy.
  if (!pieces_.Read(process, chunks)) read_.clear();
}

const uint8_t* WrittenMemory::Find(uint64_t address) const {
  return read_.empty() ? nullptr : pieces_.Find(address);
}

}  // namespace hindsight
