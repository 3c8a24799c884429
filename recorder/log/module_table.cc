#include "recorder/log/module_table.h"

#include <unistd.h>

#include <utility>

#include "base/status_macros.h"

namespace hindsight {

ModuleTable::ModuleTable(TraceWriter* writer, std::string root, uint64_t max_module_bytes,
                         std::shared_ptr<OpenedModules> files)
    : writer_(writer),
      root_(std::move(root)),
      max_module_bytes_(max_module_bytes),
      shared_files_(files != nullptr ? std::move(files) : std::make_shared<OpenedModules>()) {}

void ModuleTable::Open(absl::Span<const MapRegion> regions) {
  for (const MapRegion& region : regions) {
    if (!MayBeStored(region)) continue;
    const auto [it, is_new] = by_file_.try_emplace(KeyOf(region));
    if (is_new) it->second.opened = shared_files_->Find(region, root_);
  }
}

absl::Status ModuleTable::Register(absl::Span<MapRegion> regions, bool whole) {
  Open(regions);
  if (whole) mapped_.clear();
  for (MapRegion& region : regions) {
    if (!MayBeStored(region)) continue;
    Entry& entry = by_file_.at(KeyOf(region));
    if (!std::exchange(entry.stored, true)) RETURN_IF_ERROR(Add(region, &entry));
    region.module = entry.module;
    mapped_.insert(region.module);
  }
  return absl::OkStatus();
}

absl::Status ModuleTable::ReleaseUnmapped(absl::Span<const MapRegion> regions) {
  if (!writer_->has_ring()) return absl::OkStatus();
  std::set<Key> mapped;
  std::set<int32_t> referred;
  for (const MapRegion& region : regions) {
    if (MayBeStored(region)) mapped.insert(KeyOf(region));
    if (region.module >= 0) referred.insert(region.module);
  }
  std::set<int32_t> released, kept;
  std::erase_if(by_file_, [&](const auto& file) {
    const Entry& entry = file.second;
    const bool keep = mapped.contains(file.first) || referred.contains(entry.module);
    if (entry.listed >= 0) (keep ? kept : released).insert(entry.listed);
    return !keep;
  });
  // Two files of one name, one after the other, with the same bytes are one module.
  std::erase_if(released, [&](int32_t module) { return kept.contains(module); });
  for (const int32_t module : released) {
    files_.erase(module);
    changed_.erase(module);
  }
  if (released.empty()) return absl::OkStatus();
  shared_files_->ForgetUnused();
  return writer_->ReleaseModules(std::vector<int32_t>(released.begin(), released.end()));
}

ModuleTable::Key ModuleTable::KeyOf(const MapRegion& region) {
  return {uint64_t{region.device_major} << 32 | region.device_minor, region.inode};
}

absl::Status ModuleTable::Add(const MapRegion& region, Entry* entry) {
  std::shared_ptr<const ModuleFile> file = std::exchange(entry->opened, nullptr);
  if (file == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(entry->listed,
                   writer_->AddModule(region.name, file->fd.get(), max_module_bytes_));
  if (static_cast<uint64_t>(file->stat.st_size) > max_module_bytes_) return absl::OkStatus();
  files_.insert_or_assign(entry->listed,
                          Stored{std::move(file), writer_->ContentsOf(entry->listed)});
  entry->module = entry->listed;
  return absl::OkStatus();
}

std::shared_ptr<const ModuleFile> ModuleTable::FileOf(int32_t module) const {
  const auto it = files_.find(module);
  return it == files_.end() ? nullptr : it->second.file;
}

bool ModuleTable::Unchanged(const MapRegion& region) const {
  const std::shared_ptr<const ModuleFile> file = FileOf(region.module);
  return file != nullptr && file->Unchanged();
}

bool ModuleTable::Equals(const MapRegion& region, uint64_t page, const uint8_t* bytes,
                         uint64_t* offset) const {
  const auto stored = files_.find(region.module);
  if (stored == files_.end() || stored->second.contents == nullptr) return false;
  *offset = region.file_offset + (page - region.start);
  return stored->second.contents->HasPage(*offset, {bytes, kPageBytes});
}

bool ModuleTable::MayChange(const MapRegion& region) const {
  const std::shared_ptr<const ModuleFile> file = FileOf(region.module);
  return file != nullptr && file->MayChange();
}

std::vector<int32_t> ModuleTable::TakeChanged() {
  std::vector<int32_t> changed;
  for (const int32_t module : mapped_) {
    const std::shared_ptr<const ModuleFile> file = FileOf(module);
    if (file == nullptr || file->Unchanged()) continue;
    if (changed_.insert(module).second) changed.push_back(module);
  }
  return changed;
}

bool ModuleTable::IsElf(const MapRegion& region) const {
  const auto it = files_.find(region.module);
  return it != files_.end() && it->second.file->elf;
}

}  // namespace hindsight
