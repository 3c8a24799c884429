// The memory map at each moment of a recording, made of the whole maps and the changes in a trace.
//
// Regions stay where the trace holds them. A version of the map is what changed since the one
// before; now and then a version is a *base*, a list of all regions (as pointers), whenever what
// changed since the last one is worth a fraction of it. So a map, or one region of it, is found
// from the newest base and a bounded number of changes, and memory grows with what changes, not
// with the size of the map.
//
// Borrows the maps added, which must outlive it. Movable, not copyable. Queries may be made by
// several threads at once, after everything has been added.

#ifndef HINDSIGHT_KEYFRAMES_STATE_MAP_HISTORY_H_
#define HINDSIGHT_KEYFRAMES_STATE_MAP_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

// Regions of a memory map, ascending, not overlapping.
using RegionList = std::vector<const MapRegion*>;

class MapHistory {
 public:
  MapHistory();
  MapHistory(MapHistory&&) noexcept;
  MapHistory& operator=(MapHistory&&) noexcept;
  ~MapHistory();

  // From `moment` on, which is no less than that of what was added before: the map is `maps`, of
  // which regions that are empty, or overlap those before them, are left out.
  void AddWhole(uint64_t moment, const std::vector<MapRegion>& maps);
  // ... or changes as a kMapPart says. Without effect before the first whole map. Requires: `part`
  // is one, as tracefmt/records.h says.
  void AddPart(uint64_t moment, const ProcessEvent& part);

  // A number that is the same at moments between which nothing was added; 0: no map is known.
  size_t VersionAt(uint64_t moment) const;
  // Whether nothing is mapped, or no map is known.
  bool IsEmptyAt(uint64_t moment) const;
  // The whole map; empty if none is known. The last one asked for is kept.
  std::shared_ptr<const RegionList> At(uint64_t moment) const;
  // A copy of it.
  std::vector<MapRegion> CopyAt(uint64_t moment) const;
  // Whether the map is the same at both moments, as far as is known.
  bool IsSameAt(uint64_t one, uint64_t other) const { return VersionAt(one) == VersionAt(other); }
  // The region that holds `address`, or null.
  const MapRegion* Find(uint64_t moment, uint64_t address) const;
  // The same where the [stack] region reaches down as far as it may grow.
  const MapRegion* FindWithStackGrowth(uint64_t moment, uint64_t address) const;
  // The region of that map that is named [stack], or null.
  const MapRegion* StackAt(uint64_t moment) const;

 private:
  // What is mapped within [start, end) from some version on: regions_[first_region] and so on.
  struct Change {
    uint64_t start = 0;
    uint64_t end = 0;
    size_t first_region = 0;
    size_t region_count = 0;
  };
  struct Version {
    uint64_t moment = 0;
    size_t end_change = 0;  // of changes_: those up to here have been made
    size_t base = 0;        // index in bases_
    const MapRegion* stack = nullptr;
    bool empty = false;
  };
  struct Base {
    RegionList regions;
    size_t first_change = 0;  // of changes_: the first that it does not have
  };
  struct Cache;

  absl::Span<const MapRegion* const> RegionsOf(const Change& change) const;
  const MapRegion* AddRest(const MapRegion& region, uint64_t start, uint64_t end);
  void Replace(uint64_t start, uint64_t end, RegionList regions);
  void AddVersion(uint64_t moment);
  void AddBase();

  std::vector<Version> versions_;
  std::vector<Change> changes_;
  RegionList regions_;  // of changes_
  std::vector<Base> bases_;
  std::deque<MapRegion> rests_;  // of regions that a change covers in part
  size_t rest_names_ = 0;        // bytes

  // The newest version while versions are added.
  absl::btree_map<uint64_t, const MapRegion*> current_;  // by start
  const MapRegion* stack_ = nullptr;
  size_t regions_at_base_ = 0;  // size of regions_ when the newest base was made

  std::unique_ptr<Cache> cache_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_MAP_HISTORY_H_
