// Which files processes that are not recorded map so that they may write to them: what a recorded
// process sees in its own mappings of those may change at any time.
//
// Finding out means reading the maps of all processes, which takes some milliseconds: so it is done
// for all files at once, and at most twice a second.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_PROCESS_FOREIGN_MAPPINGS_H_
#define HINDSIGHT_RECORDER_PROCESS_FOREIGN_MAPPINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "recorder/process/memory_map.h"

namespace hindsight {

class ForeignMappings {
 public:
  ForeignMappings() = default;
  ForeignMappings(const ForeignMappings&) = delete;
  ForeignMappings& operator=(const ForeignMappings&) = delete;

  // `recorded`: whether this process is. Without it none is.
  void set_recorded(std::function<bool(pid_t)> recorded) { recorded_ = std::move(recorded); }
  // A process that maps files of recorded ones is no longer recorded: the last look is outdated.
  void Forget();
  // Whether the last look is too old at `now_ns`, nanoseconds since the recording began.
  bool IsDue(uint64_t now_ns) const { return now_ns >= next_look_ns_; }
  // Looks if it is due, or if recorded process `process`, which has these regions, maps a file that
  // was not looked for yet. Memory without a file that the process has just mapped is its alone.
  void Update(absl::Span<const MapRegion> regions, pid_t process, uint64_t now_ns);

  // As of the last look. False for files that only the system writes.
  bool MayWrite(const MapRegion& region) const;
  // Changes whenever an answer may have changed.
  uint64_t version() const { return version_; }

 private:
  using File = std::tuple<uint32_t, uint32_t, uint64_t>;  // device, inode
  static File FileOf(const MapRegion& region);
  void Look(pid_t process);

  std::function<bool(pid_t)> recorded_ = [](pid_t) { return false; };
  absl::flat_hash_set<File> known_;     // that were asked for
  absl::flat_hash_set<File> writable_;  // those of them that others may write to
  uint64_t next_look_ns_ = 0;
  uint64_t version_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_FOREIGN_MAPPINGS_H_
