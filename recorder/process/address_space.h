// A process's memory map together with what the recorder must know of its shared mappings.
//
// A page of private memory, or of memory shared among recorded processes only, is cached in the
// view between sync points: nobody else changes it meanwhile. Memory that somebody else may change
// at any time is *uncached*: each instruction that touches it gets its present contents, and its
// stores are written back at once. So is memory that may be written at one address and is seen at
// another as well: there, not where it cannot be written, which is to be looked at again after each
// store to what is uncached.
//
// It changes in place, by the ranges that change, and remembers which those were: a call that
// changes the rights of one page costs the same among ten thousand regions as among ten. The order
// of its versions is how those that keep something derived from it catch up.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_PROCESS_ADDRESS_SPACE_H_
#define HINDSIGHT_RECORDER_PROCESS_ADDRESS_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "recorder/process/memory_map.h"

namespace hindsight {

// What is mapped within [start, end): `regions`, ascending, not overlapping, all inside.
struct MapPart {
  uint64_t start = 0;
  uint64_t end = 0;
  std::vector<MapRegion> regions;
};

class AddressSpace {
 public:
  // Whether somebody who is not recorded may change what the region shows.
  using ChangedElsewhere = std::function<bool(const MapRegion& region)>;
  struct Range {
    uint64_t start = 0;
    uint64_t end = 0;
  };

  AddressSpace();  // nothing is mapped, and nobody else changes anything
  explicit AddressSpace(ChangedElsewhere changed_elsewhere);
  AddressSpace(MemoryMap map, ChangedElsewhere changed_elsewhere);
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  MemoryMap map() const;  // a copy of all regions
  size_t region_count() const { return regions_.size(); }
  // The region that holds `address`, or null. Valid until that region changes.
  const MapRegion* Find(uint64_t address) const;
  // `region` is one of those here.
  bool uncached(const MapRegion& region) const { return uncached_.contains(region.start); }
  // It is private, but where the program has not written to it shows what the process stores to its
  // file through another mapping.
  bool follows(const MapRegion& region) const { return follows_.contains(region.start); }
  bool has_shared() const { return shared_count_ > 0; }

  // [start, end) together with the regions that it touches: what a change of mappings there may
  // change, as the kernel joins and splits regions.
  Range Around(uint64_t start, uint64_t end) const;
  // Takes from both ends of `part` what is so here already. False if nothing is left.
  // Requires: no region here reaches over the border of its range.
  bool Trim(MapPart* part) const;
  // Requires: as Trim.
  void Replace(const MapPart& part);
  // What changed_elsewhere says may be another now.
  void AskElsewhere();

  // Another number whenever something has changed.
  uint64_t version() const { return version_; }
  // Where something has changed since that version; may be more than that.
  std::vector<Range> ChangedSince(uint64_t version) const;

 private:
  using File = std::tuple<uint32_t, uint32_t, uint64_t>;  // device, inode
  struct Mappings {
    absl::btree_set<uint64_t> starts;
    size_t shared = 0;
  };

  void Insert(const MapRegion& region, absl::flat_hash_set<File>* files);
  void Forget(const MapRegion& region, absl::flat_hash_set<File>* files);
  void Mark(const Mappings& mappings);
  void NoteChange(uint64_t start, uint64_t end);

  const ChangedElsewhere changed_elsewhere_;
  std::map<uint64_t, MapRegion> regions_;             // by start
  absl::flat_hash_map<File, Mappings> files_;         // of regions that are shared or of files
  absl::flat_hash_set<uint64_t> uncached_, follows_;  // by start
  size_t shared_count_ = 0;                           // regions
  uint64_t version_ = 0;
  uint64_t first_known_ = 0;                        // changes_ has those since this version
  std::deque<std::pair<uint64_t, Range>> changes_;  // by the version they led to
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_ADDRESS_SPACE_H_
