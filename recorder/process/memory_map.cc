#include "recorder/process/memory_map.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// Reads a number of this base up to and including `end`, and removes it from the front of `text`.
bool TakeNumber(absl::string_view* text, int base, char end, uint64_t* number) {
  *number = 0;
  size_t i = 0;
  for (; i < text->size() && (*text)[i] != end; ++i) {
    const char c = (*text)[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
    if (digit >= base) return false;
    *number = *number * base + digit;
  }
  if (i == 0 || i == text->size()) return false;
  text->remove_prefix(i + 1);
  return true;
}

std::string ReadWhole(const std::string& path) {
  std::string text;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return text;
  char buffer[16384];
  ssize_t got;
  while ((got = read(fd.get(), buffer, sizeof(buffer))) > 0) text.append(buffer, got);
  return text;
}

// PROCMAP_QUERY of Linux 6.11, newer than the headers of some hosts.
struct RegionQuery {
  uint64_t size = sizeof(RegionQuery);
  uint64_t flags = 0;
  uint64_t address = 0;
  uint64_t start = 0, end = 0, region_flags = 0, page_size = 0, file_offset = 0, inode = 0;
  uint32_t device_major = 0, device_minor = 0;
  uint32_t name_size = 0, build_id_size = 0;
  uint64_t name = 0, build_id = 0;
};
static_assert(sizeof(RegionQuery) == 104);
constexpr unsigned long kQueryRegion = _IOWR('f', 17, RegionQuery);
constexpr uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kShared = 8;
constexpr uint64_t kThisOrNext = 0x10;

// The region at `address`, or the next one; an empty one (start == end): there is none. nullopt:
// the kernel does not say.
std::optional<MapRegion> QueryRegion(int maps, uint64_t address) {
  char name[PATH_MAX + 32];
  RegionQuery query;
  query.flags = kThisOrNext;
  query.address = address;
  query.name_size = sizeof(name);
  query.name = reinterpret_cast<uint64_t>(name);
  if (ioctl(maps, kQueryRegion, &query) != 0) {
    if (errno == ENOENT) return MapRegion();
    return std::nullopt;
  }
  MapRegion region = {.start = query.start,
                      .end = query.end,
                      .shared = (query.region_flags & kShared) != 0,
                      .file_offset = query.file_offset,
                      .device_major = query.device_major,
                      .device_minor = query.device_minor,
                      .inode = query.inode};
  region.protection = ((query.region_flags & kReadable) != 0 ? PROT_READ : 0) |
                      ((query.region_flags & kWritable) != 0 ? PROT_WRITE : 0) |
                      ((query.region_flags & kExecutable) != 0 ? PROT_EXEC : 0);
  // The size counts the zero at its end; 0: it has no name.
  if (query.name_size > 1) region.name.assign(name, query.name_size - 1);
  // The file shows such names otherwise.
  if (region.name.find('\n') != std::string::npos || region.name.find('\\') != std::string::npos) {
    return std::nullopt;
  }
  return region;
}

// The kernel is asked several times, and threads of the process may join, split and grow regions in
// between: `region` may reach into those that were read before it. What was read last is true.
void Append(MapRegion region, std::vector<MapRegion>* regions) {
  while (!regions->empty() && regions->back().start >= region.start) regions->pop_back();
  if (!regions->empty()) regions->back().end = std::min(regions->back().end, region.start);
  regions->push_back(std::move(region));
}

}  // namespace

std::optional<MapRegion> ParseMapLine(absl::string_view line) {
  MapRegion region;
  if (!TakeNumber(&line, 16, '-', &region.start) || !TakeNumber(&line, 16, ' ', &region.end)) {
    return std::nullopt;
  }
  if (line.size() < 5 || line[4] != ' ') return std::nullopt;
  region.protection = (line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) |
                      (line[2] == 'x' ? PROT_EXEC : 0);
  region.shared = line[3] == 's';
  line.remove_prefix(5);
  uint64_t major, minor;
  if (!TakeNumber(&line, 16, ' ', &region.file_offset) || !TakeNumber(&line, 16, ':', &major) ||
      !TakeNumber(&line, 16, ' ', &minor) || !TakeNumber(&line, 10, ' ', &region.inode)) {
    return std::nullopt;
  }
  region.device_major = static_cast<uint32_t>(major);
  region.device_minor = static_cast<uint32_t>(minor);
  const size_t name = line.find_first_not_of(' ');
  if (name != absl::string_view::npos) region.name = std::string(line.substr(name));
  return region;
}

MemoryMap MemoryMap::Parse(absl::string_view text) {
  std::vector<MapRegion> regions;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::optional<MapRegion> region = ParseMapLine(line);
    if (region.has_value()) Append(*std::move(region), &regions);
  }
  return MemoryMap(std::move(regions));
}

MemoryMap MemoryMap::OfProcess(const std::string& maps_path) { return Parse(ReadWhole(maps_path)); }

std::optional<std::vector<MapRegion>> ReadRegions(const std::string& maps_path, uint64_t start,
                                                  uint64_t end) {
  const UniqueFd maps(open(maps_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!maps.valid()) return std::nullopt;
  std::vector<MapRegion> found;
  for (uint64_t at = start; at < end; at = found.back().end) {
    std::optional<MapRegion> region = QueryRegion(maps.get(), at);
    if (!region.has_value()) return std::nullopt;
    if (region->start == region->end || region->start >= end) break;
    if (region->start < start || region->end > end) return std::nullopt;
    Append(*std::move(region), &found);
  }
  return found;
}

std::optional<MapPart> ReadRegionsAround(const std::string& maps_path, uint64_t start,
                                         uint64_t end) {
  const UniqueFd maps(open(maps_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!maps.valid()) return std::nullopt;
  MapPart part = {start, ~uint64_t{0}, {}};
  for (uint64_t at = start == 0 ? 0 : start - 1;; at = part.regions.back().end) {
    std::optional<MapRegion> region = QueryRegion(maps.get(), at);
    if (!region.has_value()) return std::nullopt;
    if (region->start == region->end) break;
    if (region->start > end) {
      part.end = region->start;
      break;
    }
    Append(*std::move(region), &part.regions);
  }
  if (!part.regions.empty()) part.start = std::min(start, part.regions.front().start);
  return part;
}

std::optional<MapRegion> ReadRegionAt(const std::string& maps_path, uint64_t address) {
  const UniqueFd maps(open(maps_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!maps.valid()) return std::nullopt;
  if (auto region = QueryRegion(maps.get(), address); region.has_value()) {
    const bool holds = address - region->start < region->end - region->start;
    return holds ? std::move(region) : std::nullopt;
  }
  const MemoryMap map = MemoryMap::OfProcess(maps_path);
  const MapRegion* const region = map.Find(address);
  return region == nullptr ? std::nullopt : std::make_optional(*region);
}

const MapRegion* MemoryMap::Find(uint64_t address) const {
  auto after = std::upper_bound(
      regions_.begin(), regions_.end(), address,
      [](uint64_t wanted, const MapRegion& region) { return wanted < region.start; });
  if (after == regions_.begin()) return nullptr;
  const MapRegion& region = *std::prev(after);
  return address < region.end ? &region : nullptr;
}

const MapRegion* MemoryMap::FindNamed(absl::string_view name) const {
  for (const MapRegion& region : regions_) {
    if (region.name == name) return &region;
  }
  return nullptr;
}

}  // namespace hindsight
