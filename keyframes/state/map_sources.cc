#include "keyframes/state/map_sources.h"

#include <algorithm>

namespace hindsight {

void MapSources::AddKeyframe(const FullKeyframe* keyframe, uint64_t moment) {
  if (!keyframe->maps().empty()) sources_.push_back({.moment = moment, .keyframe = keyframe});
}

void MapSources::PassKeyframe(uint64_t moment) { latest_ = std::max(latest_, moment); }

// The map is one for all threads, and parts of it change what those before have left. So they hold
// in the order in which they were written, though a thread may have noticed a change late, and
// names a state that it had reached before other threads made theirs.
void MapSources::AddEvent(const ProcessEvent* event, uint64_t moment) {
  if (event->kind != EventKind::kMapChange && event->kind != EventKind::kMapPart) return;
  latest_ = std::max(latest_, moment);
  sources_.push_back({.moment = latest_, .event = event});
}

MapHistory MapSources::Build() {
  std::stable_sort(sources_.begin(), sources_.end(),
                   [](const Source& a, const Source& b) { return a.moment < b.moment; });
  MapHistory maps;
  for (const Source& source : sources_) {
    if (source.keyframe != nullptr) {
      maps.AddWhole(source.moment, source.keyframe->maps());
    } else if (source.event->kind == EventKind::kMapChange) {
      maps.AddWhole(source.moment, source.event->maps);
    } else {
      maps.AddPart(source.moment, *source.event);
    }
  }
  return maps;
}

}  // namespace hindsight
