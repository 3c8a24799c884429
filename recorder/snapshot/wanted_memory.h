// Which parts of a process's memory a snapshot is to have.
//
// A value. Any thread.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_WANTED_MEMORY_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_WANTED_MEMORY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "recorder/process/memory_map.h"
#include "recorder/snapshot/capture.h"
#include "recorder/snapshot/capture_configuration.h"

namespace hindsight {

class WantedMemory {
 public:
  // Of `capture`, as its `save` says, in whole pages. Always: code and constants of files, and
  // what a debugger finds the libraries by.
  static WantedMemory Of(const Capture& capture, const MemoryMap& map);

  // The parts of a region, ascending, and whether each is wanted.
  std::vector<std::pair<MapRegion, bool>> Parts(const MapRegion& region) const;

 private:
  void Add(uint64_t begin, uint64_t end);
  void AddStacks(const Capture& capture, const MemoryMap& map);
  void AddLibraryList(const Capture& capture);

  bool all_ = false;
  std::vector<SavedRange> ranges_;  // of whole pages
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_WANTED_MEMORY_H_
