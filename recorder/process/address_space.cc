#include "recorder/process/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"

namespace hindsight {
namespace {

// So many changes are remembered: for an older version everything counts as changed.
constexpr size_t kMaxChanges = 256;

using File = std::tuple<uint32_t, uint32_t, uint64_t>;

File FileOf(const MapRegion& region) {
  return {region.device_major, region.device_minor, region.inode};
}

bool SameFile(const MapRegion& a, const MapRegion& b) { return FileOf(a) == FileOf(b); }

uint64_t FileEnd(const MapRegion& region) {
  return region.file_offset + (region.end - region.start);
}

// Whether what is stored there shows in other mappings of the file.
bool WritesFile(const MapRegion& region) {
  return region.shared && (region.protection & PROT_WRITE) != 0;
}

// Of `regions`, of files: calls `mark` with those that write a page of their file which another of
// them shows as well.
void ForSeenTwice(std::vector<const MapRegion*> regions,
                  const std::function<void(const MapRegion&)>& mark) {
  const auto place = [](const MapRegion* region) {
    return std::make_pair(FileOf(*region), region->file_offset);
  };
  std::sort(regions.begin(), regions.end(),
            [&](const MapRegion* a, const MapRegion* b) { return place(a) < place(b); });
  const MapRegion* longest = nullptr;  // of those before it in the file
  for (const MapRegion* region : regions) {
    const bool same = longest != nullptr && SameFile(*longest, *region);
    if (same && WritesFile(*region) && region->file_offset < FileEnd(*longest)) mark(*region);
    if (!same || FileEnd(*longest) < FileEnd(*region)) longest = region;
  }
  for (size_t i = 0; i + 1 < regions.size(); ++i) {
    const MapRegion &region = *regions[i], &next = *regions[i + 1];
    if (WritesFile(region) && SameFile(region, next) && next.file_offset < FileEnd(region)) {
      mark(region);
    }
  }
}

bool IsDevice(const MapRegion& region) {
  return absl::StartsWith(region.name, "/dev/") && !absl::StartsWith(region.name, "/dev/shm/") &&
         !absl::StartsWith(region.name, "/dev/zero");
}

}  // namespace

AddressSpace::AddressSpace() : AddressSpace([](const MapRegion&) { return false; }) {}

AddressSpace::AddressSpace(ChangedElsewhere changed_elsewhere)
    : changed_elsewhere_(std::move(changed_elsewhere)) {}

AddressSpace::AddressSpace(MemoryMap map, ChangedElsewhere changed_elsewhere)
    : AddressSpace(std::move(changed_elsewhere)) {
  Replace({0, ~uint64_t{0}, map.regions()});
}

MemoryMap AddressSpace::map() const {
  std::vector<MapRegion> regions;
  regions.reserve(regions_.size());
  for (const auto& [start, region] : regions_) regions.push_back(region);
  return MemoryMap(std::move(regions));
}

const MapRegion* AddressSpace::Find(uint64_t address) const {
  const auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  const MapRegion& region = std::prev(after)->second;
  return address < region.end ? &region : nullptr;
}

AddressSpace::Range AddressSpace::Around(uint64_t start, uint64_t end) const {
  Range range = {start, end};
  const auto after = regions_.upper_bound(end);
  if (after == regions_.begin()) return range;
  range.end = std::max(end, std::prev(after)->second.end);
  auto first = regions_.lower_bound(start);
  if (first != regions_.begin() && std::prev(first)->second.end >= start) --first;
  if (first != regions_.end()) range.start = std::min(start, first->first);
  return range;
}

bool AddressSpace::Trim(MapPart* part) const {
  auto first = regions_.lower_bound(part->start), last = regions_.lower_bound(part->end);
  auto from = part->regions.begin(), to = part->regions.end();
  for (; first != last && from != to && first->second == *from; ++first, ++from) {
  }
  while (first != last && from != to && std::prev(last)->second == *std::prev(to)) --last, --to;
  if (first == last && from == to) return false;
  part->start = ~uint64_t{0};
  part->end = 0;
  if (first != last) {
    part->start = first->first;
    part->end = std::prev(last)->second.end;
  }
  if (from != to) {
    part->start = std::min(part->start, from->start);
    part->end = std::max(part->end, std::prev(to)->end);
  }
  part->regions =
      std::vector<MapRegion>(std::make_move_iterator(from), std::make_move_iterator(to));
  return true;
}

void AddressSpace::Replace(const MapPart& part) {
  ++version_;
  NoteChange(part.start, part.end);
  absl::flat_hash_set<File> files;
  const auto first = regions_.lower_bound(part.start), last = regions_.lower_bound(part.end);
  for (auto it = first; it != last; ++it) Forget(it->second, &files);
  const auto next = regions_.erase(first, last);
  for (const MapRegion& region : part.regions) {
    regions_.emplace_hint(next, region.start, region);
    Insert(region, &files);
  }
  for (const File& file : files) {
    const auto mappings = files_.find(file);
    if (mappings->second.starts.empty()) {
      files_.erase(mappings);
    } else {
      Mark(mappings->second);
    }
  }
}

void AddressSpace::Insert(const MapRegion& region, absl::flat_hash_set<File>* files) {
  if (!region.shared && region.inode == 0) return;
  Mappings& mappings = files_[FileOf(region)];
  mappings.starts.insert(region.start);
  mappings.shared += region.shared;
  shared_count_ += region.shared;
  files->insert(FileOf(region));
}

void AddressSpace::Forget(const MapRegion& region, absl::flat_hash_set<File>* files) {
  if (!region.shared && region.inode == 0) return;
  Mappings& mappings = files_[FileOf(region)];
  mappings.starts.erase(region.start);
  mappings.shared -= region.shared;
  shared_count_ -= region.shared;
  files->insert(FileOf(region));
  uncached_.erase(region.start);
  follows_.erase(region.start);
}

// Decides again which of a file's mappings are uncached, and which follow.
void AddressSpace::Mark(const Mappings& mappings) {
  // Most are of a library, or of a file that is only read.
  if (mappings.shared == 0 && follows_.empty()) return;
  std::vector<const MapRegion*> regions, of_file;
  bool written = false;
  for (const uint64_t start : mappings.starts) {
    regions.push_back(&regions_.find(start)->second);
    written |= WritesFile(*regions.back());
  }
  absl::flat_hash_set<uint64_t> uncached;
  const auto mark = [&](const MapRegion& region) { uncached.insert(region.start); };
  for (const MapRegion* region : regions) {
    if (region->shared || (written && region->inode != 0)) of_file.push_back(region);
    if (region->shared && (IsDevice(*region) || changed_elsewhere_(*region))) mark(*region);
  }
  ForSeenTwice(std::move(of_file), mark);
  for (const MapRegion* region : regions) {
    const bool is = uncached.contains(region->start);
    const bool follows = written && !region->shared && region->inode != 0;
    if (is == this->uncached(*region) && follows == this->follows(*region)) continue;
    is ? void(uncached_.insert(region->start)) : void(uncached_.erase(region->start));
    follows ? void(follows_.insert(region->start)) : void(follows_.erase(region->start));
    NoteChange(region->start, region->end);
  }
}

void AddressSpace::UpdateChangedElsewhere() {
  ++version_;
  for (const auto& [file, mappings] : files_) Mark(mappings);
}

void AddressSpace::NoteChange(uint64_t start, uint64_t end) {
  changes_.push_back({version_, {start, end}});
  for (; changes_.size() > kMaxChanges; changes_.pop_front()) {
    first_known_ = changes_.front().first;
  }
}

std::vector<AddressSpace::Range> AddressSpace::ChangedSince(uint64_t version) const {
  if (version < first_known_) return {{0, ~uint64_t{0}}};
  std::vector<Range> ranges;
  for (auto it = changes_.rbegin(); it != changes_.rend() && it->first > version; ++it) {
    ranges.push_back(it->second);
  }
  return ranges;
}

}  // namespace hindsight
