#include "recorder/restore/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstring>

#include "absl/strings/match.h"
#include "base/unique_fd.h"

namespace hindsight {

absl::Span<const uint8_t> MappedFiles::StoredBytes(const MapRegion& region) const {
  if (region.module < 0) return {};
  const auto bytes = trace_.ModuleBytes(region.module);
  return bytes.ok() ? *bytes : absl::Span<const uint8_t>();
}

bool MappedFiles::Compare(const MapRegion& region) const {
  if (!absl::StartsWith(region.name, "/") || absl::EndsWith(region.name, " (deleted)"))
    return false;
  const UniqueFd file(open(region.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  const absl::Span<const uint8_t> stored = StoredBytes(region);
  if (stored.empty()) {
    return facts.st_ino == region.inode && major(facts.st_dev) == region.device_major &&
           minor(facts.st_dev) == region.device_minor;
  }
  if (static_cast<uint64_t>(facts.st_size) != stored.size()) return false;
  void* now = mmap(nullptr, stored.size(), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (now == MAP_FAILED) return false;
  const bool same = std::memcmp(now, stored.data(), stored.size()) == 0;
  munmap(now, stored.size());
  return same;
}

bool MappedFiles::Unchanged(const MapRegion& region) {
  const auto [it, is_new] = unchanged_.try_emplace({region.name, region.module}, false);
  if (is_new) it->second = Compare(region);
  return it->second;
}

}  // namespace hindsight
