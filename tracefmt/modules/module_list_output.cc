#include "tracefmt/modules/module_list_output.h"

#include <utility>

#include "base/status_macros.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

// More than a module takes in a block, besides its path and build-id.
constexpr size_t kModuleBytes = 128;

void Build(const Module& module, wire::Module::Builder to) {
  to.setPath(AsData(module.path));
  to.setBuildId(AsData(module.build_id));
  to.setHash(AsData(module.hash));
  to.setSizeBytes(module.size_bytes);
  to.setStored(module.stored);
}

}  // namespace

absl::Status ModuleListOutput::Create() {
  ASSIGN_OR_RETURN(file_, AppendFile::Create(directory_, "list", bytes_written_));
  return absl::OkStatus();
}

absl::Status ModuleListOutput::Append(int32_t index, const Module& module) {
  capnp::MallocMessageBuilder message;
  Build(module, message.initRoot<wire::ModuleList>().initModules(1)[0]);
  RETURN_IF_ERROR(AppendMessage(file_.get(), BlockKind::kModules, encoder_, message));
  listed_[index].module = module;
  next_ = index + 1;
  return absl::OkStatus();
}

void ModuleListOutput::Release(const std::vector<int32_t>& modules, uint64_t keyframe) {
  for (const int32_t module : modules) listed_[module].last = keyframe;
  released_.insert(released_.end(), modules.begin(), modules.end());
}

absl::Status ModuleListOutput::DropBytes(const Module& module) {
  return module.stored ? stored_->Drop(module.hash) : absl::OkStatus();
}

bool ModuleListOutput::FitsBlock(uint64_t first) const {
  size_t bytes = 0;
  for (const auto& [index, listed] : listed_) {
    if (listed.last <= first) continue;
    bytes += kModuleBytes + listed.module.path.size() + listed.module.build_id.size();
  }
  return bytes <= kMaxRawBytes;
}

// The list first: what it names is there at every instant.
absl::Status ModuleListOutput::DropBefore(uint64_t first) {
  // Else they stay until fewer files with such names are mapped.
  if (released_.empty() || !FitsBlock(first)) return absl::OkStatus();
  std::vector<Module> dropped;
  std::erase_if(released_, [&](int32_t index) {
    const auto found = listed_.find(index);
    if (found->second.last > first) return false;
    dropped.push_back(std::move(found->second.module));
    listed_.erase(found);
    return true;
  });
  if (dropped.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Replace());
  for (const Module& module : dropped) RETURN_IF_ERROR(DropBytes(module));
  return absl::OkStatus();
}

absl::Status ModuleListOutput::Replace() {
  capnp::MallocMessageBuilder message;
  auto kept = message.initRoot<wire::KeptModules>();
  kept.setListed(static_cast<uint32_t>(next_));
  auto indices = kept.initIndices(static_cast<uint32_t>(listed_.size()));
  auto modules = kept.initModules(static_cast<uint32_t>(listed_.size()));
  uint32_t i = 0;
  for (const auto& [index, listed] : listed_) {
    indices.set(i, static_cast<uint32_t>(index));
    Build(listed.module, modules[i++]);
  }
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto raw = words.asBytes();
  return file_->DropBefore(file_->size(), BlockKind::kKeptModules, encoder_,
                           absl::MakeConstSpan(raw.begin(), raw.size()));
}

absl::Status ModuleListOutput::DropAll() {
  for (const auto& [index, listed] : listed_) RETURN_IF_ERROR(DropBytes(listed.module));
  listed_.clear();
  released_.clear();
  return absl::OkStatus();
}

}  // namespace hindsight
