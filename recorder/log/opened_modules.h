// The files that the processes of a recording have mapped, opened once for all of them.
//
// Not copyable. One thread.

#ifndef HINDSIGHT_RECORDER_LOG_OPENED_MODULES_H_
#define HINDSIGHT_RECORDER_LOG_OPENED_MODULES_H_

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "recorder/process/memory_map.h"

namespace hindsight {

// One file as it was when it was first seen mapped. While `fd` is open its inode is no other
// file's.
struct ModuleFile {
  UniqueFd fd;
  struct stat stat = {};
  bool elf = false;
  // Whether it had been at rest, and its times tell of stores by way of mappings.
  bool at_rest = false;

  // Whether it has not been written to since, as far as its times tell.
  bool Unchanged() const;
  // Whether it may be stored to by way of mappings without a change of its times. Programs are not
  // while they run.
  bool MayChange() const { return !elf && !at_rest; }
};

// Whether the region's name is one of a file on a disk, that is still there.
bool MayBeStored(const MapRegion& region);

// Any number of host threads.
class OpenedModules {
 public:
  OpenedModules() = default;
  OpenedModules(const OpenedModules&) = delete;
  OpenedModules& operator=(const OpenedModules&) = delete;

  // The file mapped in `region`, found under its name in the directory tree `root`. nullptr if
  // there is none, or another file has that name by now. A file that was written to since it was
  // found the last time counts as another.
  std::shared_ptr<const ModuleFile> Find(const MapRegion& region, const std::string& root);
  // Closes those that nobody else has.
  void ForgetUnused();

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // device, inode

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const ModuleFile>> files_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_OPENED_MODULES_H_
