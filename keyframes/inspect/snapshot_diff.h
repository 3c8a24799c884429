// What differs between the memory of two snapshots of a process.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_SNAPSHOT_DIFF_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_SNAPSHOT_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "keyframes/inspect/snapshot_view.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct DifferentRange {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t bytes = 0;  // in it that differ
};

struct DifferentVariable {
  std::string name;
  std::string file;  // that has it
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t bytes = 0;  // of it that differ
};

struct RegionDifference {
  MapRegion region;  // as the second has it, or, where it is gone, the first
  bool only_first = false;
  bool only_second = false;
  uint64_t pages = 0;                  // that differ
  uint64_t bytes = 0;                  // likewise
  uint64_t unknown_pages = 0;          // that only one of the two knows
  std::vector<DifferentRange> ranges;  // ascending
};

struct SnapshotDifference {
  std::vector<RegionDifference> regions;  // that differ; ascending
  std::vector<DifferentVariable> variables;
};

// Compares what the two views, at their snapshots, hold of memory. Both are of `trace`.
SnapshotDifference Compare(const TraceReader& trace, SnapshotView* first, SnapshotView* second);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_SNAPSHOT_DIFF_H_
