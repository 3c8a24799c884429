// A process's memory map, as /proc/PID/maps shows it.
//
// A value: copyable, immutable but by assignment.

#ifndef HINDSIGHT_RECORDER_PROCESS_MEMORY_MAP_H_
#define HINDSIGHT_RECORDER_PROCESS_MEMORY_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tracefmt/records.h"

namespace hindsight {

// What is mapped within [start, end): `regions`, ascending, not overlapping, all inside.
struct MapPart {
  uint64_t start = 0;
  uint64_t end = 0;
  std::vector<MapRegion> regions;
};

// nullopt if `line` (without its newline) is not a line of /proc/PID/maps.
std::optional<MapRegion> ParseMapLine(absl::string_view line);

// The regions that touch [start, end), at a cost that does not depend on how many there are
// elsewhere. nullopt where the kernel cannot be asked for single regions (before Linux 6.11), or
// one of them reaches over start or end: then all of the map must be read.
std::optional<std::vector<MapRegion>> ReadRegions(const std::string& maps_path, uint64_t start,
                                                  uint64_t end);

// The regions that touch [start, end), or end or begin where it begins or ends, as a whole, and
// what is not mapped behind them. nullopt where the kernel cannot be asked for single regions.
std::optional<MapPart> ReadRegionsAround(const std::string& maps_path, uint64_t start,
                                         uint64_t end);

// The region that holds `address`; nullopt: there is none. All of the map is read only where the
// kernel cannot be asked for one.
std::optional<MapRegion> ReadRegionAt(const std::string& maps_path, uint64_t address);

class MemoryMap {
 public:
  MemoryMap() = default;
  // Requires: ascending, not overlapping.
  explicit MemoryMap(std::vector<MapRegion> regions) : regions_(std::move(regions)) {}

  // `text` is that of /proc/PID/maps. Where lines contradict each other, as the process has changed
  // while it was read, the later one is taken.
  static MemoryMap Parse(absl::string_view text);
  // Empty if the process is gone.
  static MemoryMap OfProcess(const std::string& maps_path);

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

#endif  // HINDSIGHT_RECORDER_PROCESS_MEMORY_MAP_H_
