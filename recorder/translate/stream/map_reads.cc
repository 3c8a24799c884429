#include "recorder/translate/stream/map_reads.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/process/memory_map.h"

namespace hindsight {

MapReads::Answer MapReads::Read(pid_t process, uint64_t start, uint64_t end,
                                OpenedModules* modules) {
  const std::string folder = absl::StrCat("/proc/", process);
  const std::string maps = folder + "/maps";
  MapRead read;
  Answer answer;
  std::optional<MapPart> part;
  if (end < start) end = 0;  // the program may have forged it
  if (end != 0) part = ReadRegionsAround(maps, start, end);
  if (!part.has_value()) part = {0, ~uint64_t{0}, MemoryMap::OfProcess(maps).regions()};
  read.part = *std::move(part);
  answer.executable = end == 0;
  for (const MapRegion& region : read.part.regions) {
    const bool is_there = region.start < end && region.end > start;
    answer.executable |= is_there && (region.protection & PROT_EXEC) != 0;
    if (modules == nullptr || !MayBeStored(region)) continue;
    if (auto file = modules->Find(region, folder + "/root")) read.files.push_back(std::move(file));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  answer.id = ++last_;
  reads_.emplace(answer.id, std::move(read));
  return answer;
}

std::optional<MapRead> MapReads::Take(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reads_.find(id);
  if (found == reads_.end()) return std::nullopt;
  MapRead read = std::move(found->second);
  reads_.erase(found);
  return read;
}

}  // namespace hindsight
