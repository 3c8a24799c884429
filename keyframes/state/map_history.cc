#include "keyframes/state/map_history.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "keyframes/state/first_after.h"

namespace hindsight {
namespace {

// Linux lets a stack grow to RLIMIT_STACK; the map in the trace shows how far it had grown.
constexpr uint64_t kStackGrowthBytes = uint64_t{8} << 20;

// A base is made when the changes since the last one have this part of the map's regions, or this
// many: a base then costs as much memory for each change as some pointers.
constexpr size_t kBaseFraction = 16;
constexpr size_t kFewChanges = 64;
// Names that rests of regions have altogether: a hostile trace could cut a region with a long one
// ever again.
constexpr size_t kMaxRestNames = size_t{16} << 20;

bool Contains(const MapRegion& region, uint64_t address) {
  return region.start <= address && address < region.end;
}

// The one of `regions` that holds `address`, or null.
const MapRegion* FindIn(absl::Span<const MapRegion* const> regions, uint64_t address) {
  const auto after =
      std::partition_point(regions.begin(), regions.end(),
                           [&](const MapRegion* region) { return region->start <= address; });
  if (after == regions.begin()) return nullptr;
  const MapRegion* const region = *std::prev(after);
  return Contains(*region, address) ? region : nullptr;
}

}  // namespace

// The map last asked for, whole.
struct MapHistory::Cache {
  std::mutex mutex;
  size_t version = 0;  // 0: none
  std::shared_ptr<const RegionList> map = std::make_shared<RegionList>();
};

MapHistory::MapHistory() : cache_(std::make_unique<Cache>()) {}
MapHistory::MapHistory(MapHistory&&) noexcept = default;
MapHistory& MapHistory::operator=(MapHistory&&) noexcept = default;
MapHistory::~MapHistory() = default;

absl::Span<const MapRegion* const> MapHistory::RegionsOf(const Change& change) const {
  return absl::MakeConstSpan(regions_).subspan(change.first_region, change.region_count);
}

void MapHistory::AddWhole(uint64_t moment, const std::vector<MapRegion>& maps) {
  current_.clear();
  stack_ = nullptr;
  uint64_t at = 0;
  for (const MapRegion& region : maps) {
    if (region.start < at || region.end <= region.start) continue;
    current_.emplace_hint(current_.end(), region.start, &region);
    if (region.name == "[stack]") stack_ = &region;
    at = region.end;
  }
  AddBase();
  AddVersion(moment);
}

void MapHistory::AddPart(uint64_t moment, const ProcessEvent& part) {
  if (bases_.empty()) return;  // what is mapped elsewhere is not known
  auto region = part.maps.begin();
  for (size_t i = 0; i + 1 < part.arguments.size(); i += 2) {
    RegionList regions;
    for (; region != part.maps.end() && region->end <= part.arguments[i + 1]; ++region) {
      regions.push_back(&*region);
    }
    Replace(part.arguments[i], part.arguments[i + 1], std::move(regions));
  }
  const size_t changed =
      regions_.size() - regions_at_base_ + changes_.size() - bases_.back().first_change;
  if (changed > std::max(kFewChanges, current_.size() / kBaseFraction)) AddBase();
  AddVersion(moment);
}

// What a change leaves of `region`.
const MapRegion* MapHistory::AddRest(const MapRegion& region, uint64_t start, uint64_t end) {
  MapRegion& rest = rests_.emplace_back(region);
  rest_names_ += rest.name.size();
  if (rest_names_ > kMaxRestNames) rest.name = std::string();
  if (region.inode != 0) rest.file_offset += start - region.start;
  rest.start = start;
  rest.end = end;
  return &rest;
}

// `regions` lie in [start, end).
void MapHistory::Replace(uint64_t start, uint64_t end, RegionList regions) {
  auto first = current_.lower_bound(start);
  if (first != current_.begin() && std::prev(first)->second->end > start) --first;
  auto last = first;
  while (last != current_.end() && last->first < end) {
    const MapRegion& old = *last->second;
    if (old.start < start) regions.insert(regions.begin(), AddRest(old, old.start, start));
    if (old.end > end) regions.push_back(AddRest(old, end, old.end));
    if (&old == stack_) stack_ = nullptr;
    ++last;
  }
  current_.erase(first, last);
  changes_.push_back({start, end, regions_.size(), regions.size()});
  if (!regions.empty()) {
    changes_.back().start = std::min(start, regions.front()->start);
    changes_.back().end = std::max(end, regions.back()->end);
  }
  for (const MapRegion* region : regions) {
    current_.emplace(region->start, region);
    if (region->name == "[stack]") stack_ = region;
  }
  regions_.insert(regions_.end(), regions.begin(), regions.end());
}

void MapHistory::AddBase() {
  Base& base = bases_.emplace_back();
  base.first_change = changes_.size();
  base.regions.reserve(current_.size());
  for (const auto& [start, region] : current_) base.regions.push_back(region);
  regions_at_base_ = regions_.size();
}

void MapHistory::AddVersion(uint64_t moment) {
  versions_.push_back({moment, changes_.size(), bases_.size() - 1, stack_, current_.empty()});
}

size_t MapHistory::VersionAt(uint64_t moment) const {
  return static_cast<size_t>(FirstAfter(versions_, moment) - versions_.begin());
}

bool MapHistory::IsEmptyAt(uint64_t moment) const {
  const size_t number = VersionAt(moment);
  return number == 0 || versions_[number - 1].empty;
}

std::shared_ptr<const RegionList> MapHistory::At(uint64_t moment) const {
  const size_t number = VersionAt(moment);
  const std::lock_guard<std::mutex> lock(cache_->mutex);
  if (cache_->version == number) return cache_->map;
  auto map = std::make_shared<RegionList>();
  if (number != 0) {
    const Version& version = versions_[number - 1];
    size_t i = bases_[version.base].first_change;
    const Version* const kept = cache_->version == 0 ? nullptr : &versions_[cache_->version - 1];
    if (kept != nullptr && kept->base == version.base && cache_->version < number) {
      i = kept->end_change;
      *map = *cache_->map;
    } else {
      *map = bases_[version.base].regions;
    }
    for (; i < version.end_change; ++i) {
      const Change& change = changes_[i];
      const auto first = std::partition_point(
          map->begin(), map->end(), [&](const MapRegion* r) { return r->start < change.start; });
      const auto last = std::partition_point(
          first, map->end(), [&](const MapRegion* r) { return r->start < change.end; });
      const absl::Span<const MapRegion* const> regions = RegionsOf(change);
      const size_t common = std::min<size_t>(regions.size(), last - first);
      std::copy_n(regions.begin(), common, first);
      const auto at = map->erase(first + common, last);
      map->insert(at, regions.begin() + common, regions.end());
    }
  }
  cache_->version = number;
  cache_->map = map;
  return map;
}

const MapRegion* MapHistory::Find(uint64_t moment, uint64_t address) const {
  const size_t number = VersionAt(moment);
  if (number == 0) return nullptr;
  const Version& version = versions_[number - 1];
  const Base& base = bases_[version.base];
  for (size_t i = version.end_change; i > base.first_change; --i) {
    const Change& change = changes_[i - 1];
    if (change.start <= address && address < change.end) {
      return FindIn(RegionsOf(change), address);
    }
  }
  return FindIn(base.regions, address);
}

const MapRegion* MapHistory::FindWithStackGrowth(uint64_t moment, uint64_t address) const {
  if (const MapRegion* region = Find(moment, address)) return region;
  const MapRegion* const stack = StackAt(moment);
  if (stack == nullptr) return nullptr;
  const uint64_t growth = std::min(kStackGrowthBytes, stack->start);
  return address >= stack->start - growth && address < stack->end ? stack : nullptr;
}

std::vector<MapRegion> MapHistory::CopyAt(uint64_t moment) const {
  const std::shared_ptr<const RegionList> regions = At(moment);
  std::vector<MapRegion> maps;
  maps.reserve(regions->size());
  for (const MapRegion* region : *regions) maps.push_back(*region);
  return maps;
}

const MapRegion* MapHistory::StackAt(uint64_t moment) const {
  const size_t number = VersionAt(moment);
  return number == 0 ? nullptr : versions_[number - 1].stack;
}

}  // namespace hindsight
