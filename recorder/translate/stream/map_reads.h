// What threads have made the kernel map, read before they go on, for the recorder, which may be
// behind all of them by what they have told.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_MAP_READS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_MAP_READS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/log/opened_modules.h"
#include "recorder/process/address_space.h"

namespace hindsight {

struct MapRead {
  MapPart part;
  // Files mapped there; open as long as it is kept.
  std::vector<std::shared_ptr<const ModuleFile>> files;
};

// Any number of host threads.
class MapReads {
 public:
  struct Answer {
    uint64_t id = 0;  // what Take is to be told, not 0
    // Whether something there may be executed, or that is not known.
    bool executable = false;
  };
  // Reads what `process` has mapped from start to end, as in ReadRegionsAround, all of it if `end`
  // is 0, and opens the files in `modules`, which may be null. Requires: the thread that has
  // changed it waits.
  Answer Read(pid_t process, uint64_t start, uint64_t end, OpenedModules* modules);
  // Once for each. nullopt: there is none.
  std::optional<MapRead> Take(uint64_t id);

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;
  absl::flat_hash_map<uint64_t, MapRead> reads_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_MAP_READS_H_
