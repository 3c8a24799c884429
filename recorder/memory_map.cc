#include "recorder/memory_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

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

MemoryMap MemoryMap::OfProcess(const std::string& maps_path) {
  std::vector<MapRegion> regions;
  const std::string text = ReadWhole(maps_path);
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (std::optional<MapRegion> region = ParseMapLine(line)) {
      regions.push_back(*std::move(region));
    }
  }
  return MemoryMap(std::move(regions));
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
