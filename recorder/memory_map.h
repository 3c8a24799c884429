// A process's memory map, as /proc/PID/maps tells it.
//
// A value: copyable, immutable but by assignment.

#ifndef HINDSIGHT_RECORDER_MEMORY_MAP_H_
#define HINDSIGHT_RECORDER_MEMORY_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tracefmt/records.h"

namespace hindsight {

// nullopt if `line` (without its end) is no line of /proc/PID/maps.
std::optional<MapRegion> ParseMapLine(absl::string_view line);

class MemoryMap {
 public:
  MemoryMap() = default;
  // Requires: ascending, not overlapping.
  explicit MemoryMap(std::vector<MapRegion> regions) : regions_(std::move(regions)) {}

  // Empty if the process is gone.
  static MemoryMap OfProcess(const std::string& maps_path);

  // Brings what touches [start, end) up to date, which is all that has changed. What it costs does
  // not depend on how many regions there are elsewhere. False, and nothing is changed, where the
  // kernel cannot be asked for single regions (before Linux 6.11), or it tells of something that
  // does not fit: then all of it must be read.
  bool Refresh(const std::string& maps_path, uint64_t start, uint64_t end);

  // The region that holds `address`, or nullptr.
  const MapRegion* Find(uint64_t address) const;
  const MapRegion* FindNamed(absl::string_view name) const;

  const std::vector<MapRegion>& regions() const { return regions_; }
  std::vector<MapRegion>& mutable_regions() { return regions_; }

  bool operator==(const MemoryMap&) const = default;

 private:
  std::vector<MapRegion> regions_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_MEMORY_MAP_H_
