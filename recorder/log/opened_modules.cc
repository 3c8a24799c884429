#include "recorder/log/opened_modules.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/match.h"
#include "base/file_times.h"

namespace hindsight {

bool MayBeStored(const MapRegion& region) {
  return region.inode != 0 && absl::StartsWith(region.name, "/") &&
         !absl::EndsWith(region.name, " (deleted)") && !absl::StartsWith(region.name, "/dev/") &&
         !absl::StartsWith(region.name, "/memfd:") && !absl::StartsWith(region.name, "/SYSV");
}

bool ModuleFile::Unchanged() const {
  struct stat now;
  return fstat(fd.get(), &now) == 0 && now.st_size == stat.st_size &&
         now.st_mtim.tv_sec == stat.st_mtim.tv_sec && now.st_mtim.tv_nsec == stat.st_mtim.tv_nsec;
}

std::shared_ptr<const ModuleFile> OpenedModules::Find(const MapRegion& region,
                                                      const std::string& root) {
  const Key key = {uint64_t{region.device_major} << 32 | region.device_minor, region.inode};
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = files_.find(key);
  if (known != files_.end() && known->second->Unchanged()) return known->second;
  auto file = std::make_shared<ModuleFile>();
  // NONBLOCK: the path may name a FIFO by now.
  file->fd.Reset(open((root + region.name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file->fd.valid() || fstat(file->fd.get(), &file->stat) != 0) return nullptr;
  // The path may name another file by now. (The device is not compared: some file systems report
  // different ones in stat and in maps.)
  if (!S_ISREG(file->stat.st_mode) || file->stat.st_ino != region.inode) return nullptr;
  char magic[SELFMAG];
  file->elf = pread(file->fd.get(), magic, SELFMAG, 0) == SELFMAG &&
              std::memcmp(magic, ELFMAG, SELFMAG) == 0;
  file->at_rest = IsAtRest(file->stat, kNoStoresSeconds) && TellTimesOfStores(file->fd.get());
  files_.insert_or_assign(key, file);
  return file;
}

void OpenedModules::ForgetUnused() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(files_, [](const auto& file) { return file.second.use_count() == 1; });
}

}  // namespace hindsight
