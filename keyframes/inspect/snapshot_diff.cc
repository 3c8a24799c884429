#include "keyframes/inspect/snapshot_diff.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "keyframes/inspect/elf_image.h"

namespace hindsight {
namespace {

// Differences with fewer equal bytes between them are one range.
constexpr uint64_t kMostGapBytes = 64;
// A file may claim any size; larger variables are found among the ranges.
constexpr uint64_t kMostVariableBytes = uint64_t{1} << 30;

class Comparison {
 public:
  Comparison(const TraceReader& trace, SnapshotView* first, SnapshotView* second)
      : trace_(trace), first_(first), second_(second) {}

  SnapshotDifference Run() {
    for (const MapRegion& region : first_->Regions()) {
      if (!Has(second_->Regions(), region)) AddOnly(region, /*first=*/true);
    }
    const std::vector<MapRegion> before = first_->Regions();
    const std::set<uint64_t> pages = Pages();
    for (const MapRegion& region : second_->Regions()) {
      if (Has(before, region)) {
        CompareRegion(region, pages);
      } else {
        AddOnly(region, /*first=*/false);
      }
    }
    std::stable_sort(out_.regions.begin(), out_.regions.end(),
                     [](const RegionDifference& a, const RegionDifference& b) {
                       return a.region.start < b.region.start;
                     });
    AddVariables();
    return std::move(out_);
  }

 private:
  // Whether some region has a part of this one.
  static bool Has(const std::vector<MapRegion>& regions, const MapRegion& region) {
    return std::any_of(regions.begin(), regions.end(), [&](const MapRegion& other) {
      return other.start < region.end && region.start < other.end;
    });
  }

  void AddOnly(const MapRegion& region, bool first) {
    out_.regions.push_back({.region = region, .only_first = first, .only_second = !first});
  }

  // Pages that one of the two holds: all others are as they were mapped.
  std::set<uint64_t> Pages() const {
    std::set<uint64_t> pages;
    for (const SnapshotView* view : {first_, second_}) {
      const auto held = view->here().keyframe->page_addresses();
      pages.insert(held.begin(), held.end());
    }
    return pages;
  }

  void CompareRegion(const MapRegion& region, const std::set<uint64_t>& pages) {
    RegionDifference difference = {.region = region};
    for (auto page = pages.lower_bound(region.start); page != pages.end() && *page < region.end;
         ++page) {
      ComparePage(*page, &difference);
    }
    if (difference.pages > 0 || difference.unknown_pages > 0) {
      out_.regions.push_back(std::move(difference));
    }
  }

  void ComparePage(uint64_t page, RegionDifference* difference) {
    std::array<uint8_t, kPageBytes> was, is;
    const bool knew = first_->ReadMemory(0, page, absl::MakeSpan(was)).ok();
    const bool knows = second_->ReadMemory(0, page, absl::MakeSpan(is)).ok();
    if (!knew || !knows) {
      difference->unknown_pages += knew != knows;
      return;
    }
    if (was == is) return;
    ++difference->pages;
    for (uint64_t i = 0; i < kPageBytes; ++i) {
      if (was[i] == is[i]) continue;
      ++difference->bytes;
      const uint64_t address = page + i;
      std::vector<DifferentRange>& ranges = difference->ranges;
      if (ranges.empty() || address - ranges.back().end >= kMostGapBytes) {
        ranges.push_back({.start = address, .end = address});
      }
      ranges.back().end = address + 1;
      ++ranges.back().bytes;
    }
  }

  // Where the file of `module` begins in memory; 0: it does not.
  uint64_t StartOf(int32_t module) const {
    for (const MapRegion& region : second_->Regions()) {
      if (region.module == module && region.file_offset == 0) return region.start;
    }
    return 0;
  }

  void AddVariables() {
    std::set<int32_t> modules;
    for (const MapRegion& region : second_->Regions()) {
      if (region.module >= 0) modules.insert(region.module);
    }
    for (const int32_t module : modules) {
      const auto bytes = trace_.ModuleBytes(module);
      if (!bytes.ok()) continue;
      const auto image = ElfImage::Parse(*bytes);
      const uint64_t start = StartOf(module);
      if (!image.ok() || start == 0) continue;
      const std::optional<uint64_t> linked = image->FirstAddress();
      if (!linked) continue;
      for (const ElfImage::Object& object : image->Objects()) {
        AddVariable(object, start - *linked, trace_.modules().at(module).path);
      }
    }
  }

  void AddVariable(const ElfImage::Object& object, uint64_t bias, const std::string& file) {
    const uint64_t start = object.address + bias, end = start + object.size_bytes;
    if (object.size_bytes > kMostVariableBytes || end < start || !Differs(start, end)) return;
    std::vector<uint8_t> was(object.size_bytes), is(object.size_bytes);
    const auto knew = first_->ReadMemory(0, start, absl::MakeSpan(was));
    const auto knows = second_->ReadMemory(0, start, absl::MakeSpan(is));
    if (!knew.ok() || !knows.ok()) return;
    uint64_t bytes = 0;
    for (size_t i = 0; i < std::min(*knew, *knows); ++i) bytes += was[i] != is[i];
    if (bytes > 0) out_.variables.push_back({object.name, file, start, object.size_bytes, bytes});
  }

  bool Differs(uint64_t start, uint64_t end) const {
    for (const RegionDifference& difference : out_.regions) {
      if (start >= difference.region.end || end <= difference.region.start) continue;
      const auto range =
          std::partition_point(difference.ranges.begin(), difference.ranges.end(),
                               [=](const DifferentRange& range) { return range.end <= start; });
      if (range != difference.ranges.end() && range->start < end) return true;
    }
    return false;
  }

  const TraceReader& trace_;
  SnapshotView* const first_;
  SnapshotView* const second_;
  SnapshotDifference out_;
};

}  // namespace

SnapshotDifference Compare(const TraceReader& trace, SnapshotView* first, SnapshotView* second) {
  return Comparison(trace, first, second).Run();
}

}  // namespace hindsight
