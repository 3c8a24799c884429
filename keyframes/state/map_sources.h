// Where a process's memory map is known from - events and full keyframes - in the order in which
// what they say holds. Used while a ProcessState is made.

#ifndef HINDSIGHT_KEYFRAMES_STATE_MAP_SOURCES_H_
#define HINDSIGHT_KEYFRAMES_STATE_MAP_SOURCES_H_

#include <cstdint>
#include <vector>

#include "keyframes/state/map_history.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class MapSources {
 public:
  // A keyframe at `moment`; nothing if it has no map.
  void AddKeyframe(const FullKeyframe* keyframe, uint64_t moment);
  // The trace's events go on at a keyframe at `moment`.
  void PassKeyframe(uint64_t moment);
  // An event, in the order of the trace; nothing unless it changes the map.
  void AddEvent(const ProcessEvent* event, uint64_t moment);

  MapHistory Build();

 private:
  struct Source {
    uint64_t moment = 0;
    // One of the two.
    const ProcessEvent* event = nullptr;
    const FullKeyframe* keyframe = nullptr;
  };
  std::vector<Source> sources_;
  uint64_t latest_ = 0;  // moment of the newest one among the events so far
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_MAP_SOURCES_H_
