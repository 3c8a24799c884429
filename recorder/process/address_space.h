// A process's memory map, with what the recorder must know about its shared mappings.
//
// A page of private memory, or of memory shared among recorded processes only, is cached in the
// view between sync points: nobody else changes it meanwhile. Memory that others may change at any
// time is *uncached*: each instruction that touches it gets its present contents, and its stores
// are written back at once. Memory that is mapped at two addresses is uncached where it may be
// written; the other mapping *follows*: it is compared after each store to uncached memory.
//
// The map changes in place, range by range, and remembers the ranges: a call that changes the
// rights of one page costs the same among ten thousand regions as among ten. What is derived from
// the map is brought up to date by asking for the changes since a version.
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

class AddressSpace {
 public:
  // Whether processes that are not recorded may change the region's contents.
  using ChangedElsewhere = std::function<bool(const MapRegion& region)>;
  struct Range {
    uint64_t start = 0;
    uint64_t end = 0;
  };

  AddressSpace();  // nothing is mapped, and no others change anything
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
  // It shows what the process stores to its file through another mapping, as far as the program has
  // not written to this one.
  bool follows(const MapRegion& region) const { return follows_.contains(region.start); }
  bool has_shared() const { return shared_count_ > 0; }

  // [start, end) together with the regions that it touches: what a change of mappings there may
  // change, as the kernel joins and splits regions.
  Range Around(uint64_t start, uint64_t end) const;
  // Removes from both ends of `part` what is already the same here. False if nothing is left.
  // Requires: no region here reaches over the border of its range.
  bool Trim(MapPart* part) const;
  // Requires: as Trim.
  void Replace(const MapPart& part);
  // The answers of changed_elsewhere may have changed.
  void UpdateChangedElsewhere();

  // Changes whenever something has changed.
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
