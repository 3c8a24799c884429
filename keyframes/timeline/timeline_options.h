// What a timeline may use, and what it has cost. Plain data.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_OPTIONS_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_OPTIONS_H_

#include <cstdint>

namespace hindsight {

struct TimelineOptions {
  // Page pre-images that checkpoints may hold, all segments together.
  uint64_t checkpoint_bytes = uint64_t{512} << 20;
  // Contents of earlier segments' pages kept for reading memory.
  uint64_t view_cache_bytes = uint64_t{256} << 20;
  // Host threads that search backward; 0: one per core.
  int search_threads = 0;
};

// What the time travel has cost, for `monitor` and the benchmarks.
struct TimelineStatistics {
  uint64_t checkpoints = 0;
  uint64_t checkpoint_bytes = 0;
  uint64_t states_replayed = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_OPTIONS_H_
