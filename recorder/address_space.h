// A process's memory map together with what the recorder must know of its shared mappings.
//
// A page of private memory, or of memory shared among recorded processes only, is cached in the
// view between sync points: nobody else changes it meanwhile. Memory that somebody else may change
// at any time is *uncached*: each instruction that touches it gets its present contents, and its
// stores are written back at once. So is memory that may be written at one address and is seen at
// another as well: there, not where it cannot be written, which is to be looked at again after each
// store to what is uncached.
//
// A value: immutable but by assignment.

#ifndef HINDSIGHT_RECORDER_ADDRESS_SPACE_H_
#define HINDSIGHT_RECORDER_ADDRESS_SPACE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "recorder/memory_map.h"

namespace hindsight {

class AddressSpace {
 public:
  AddressSpace() = default;
  // `changed_elsewhere`: whether somebody who is not recorded may change what the region shows.
  AddressSpace(MemoryMap map,
               const std::function<bool(const MapRegion& region)>& changed_elsewhere);

  const MemoryMap& map() const { return map_; }
  const MapRegion* Find(uint64_t address) const { return map_.Find(address); }
  // `region` is one of map()'s.
  bool uncached(const MapRegion& region) const {
    return !uncached_.empty() && uncached_[&region - map_.regions().data()];
  }
  // It is private, but where the program has not written to it shows what the process stores to its
  // file through another mapping.
  bool follows(const MapRegion& region) const {
    return !follows_.empty() && follows_[&region - map_.regions().data()];
  }
  bool has_shared() const { return has_shared_; }

  bool operator==(const AddressSpace&) const = default;

 private:
  MemoryMap map_;
  std::vector<bool> uncached_, follows_;  // empty: none
  bool has_shared_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_ADDRESS_SPACE_H_
