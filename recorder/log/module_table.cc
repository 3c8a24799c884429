#include "recorder/log/module_table.h"

#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Names that are not, or no longer, files on a disk.
bool MayBeStored(const MapRegion& region) {
  return region.inode != 0 && absl::StartsWith(region.name, "/") &&
         !absl::EndsWith(region.name, " (deleted)") && !absl::StartsWith(region.name, "/dev/") &&
         !absl::StartsWith(region.name, "/memfd:") && !absl::StartsWith(region.name, "/SYSV");
}

}  // namespace

ModuleTable::ModuleTable(TraceWriter* writer, std::string root, uint64_t max_module_bytes,
                         std::shared_ptr<OpenedModules> files)
    : writer_(writer),
      root_(std::move(root)),
      max_module_bytes_(max_module_bytes),
      shared_files_(files != nullptr ? std::move(files) : std::make_shared<OpenedModules>()) {}

absl::Status ModuleTable::Register(absl::Span<MapRegion> regions) {
  for (MapRegion& region : regions) {
    if (!MayBeStored(region)) continue;
    const Key key = {uint64_t{region.device_major} << 32 | region.device_minor, region.inode};
    auto [it, is_new] = by_file_.try_emplace(key, -1);
    if (is_new) RETURN_IF_ERROR(Add(region, &it->second));
    region.module = it->second;
  }
  return absl::OkStatus();
}

absl::Status ModuleTable::Add(const MapRegion& region, int32_t* index) {
  std::shared_ptr<const ModuleFile> file = shared_files_->Find(region, root_);
  if (file == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int32_t module,
                   writer_->AddModule(region.name, file->fd.get(), max_module_bytes_));
  if (static_cast<uint64_t>(file->stat.st_size) > max_module_bytes_) return absl::OkStatus();
  files_.insert_or_assign(module, std::move(file));
  *index = module;
  return absl::OkStatus();
}

bool ModuleTable::Unchanged(const MapRegion& region) const {
  const auto it = files_.find(region.module);
  return it != files_.end() && it->second->Unchanged();
}

bool ModuleTable::Equals(const MapRegion& region, uint64_t page, const uint8_t* bytes,
                         uint64_t* offset) const {
  if (!Unchanged(region)) return false;
  uint8_t contents[kPageBytes] = {};  // zero after the end of the file, as in the process
  *offset = region.file_offset + (page - region.start);
  const int fd = files_.find(region.module)->second->fd.get();
  return pread(fd, contents, kPageBytes, static_cast<off_t>(*offset)) > 0 &&
         std::memcmp(contents, bytes, kPageBytes) == 0;
}

std::vector<int32_t> ModuleTable::TakeChanged() {
  std::vector<int32_t> changed;
  for (const auto& [module, file] : files_) {
    if (!file->Unchanged() && changed_.insert(module).second) changed.push_back(module);
  }
  return changed;
}

bool ModuleTable::IsElf(const MapRegion& region) const {
  const auto it = files_.find(region.module);
  return it != files_.end() && it->second->elf;
}

}  // namespace hindsight
