#include "tracefmt/modules/module_store.h"

#include <fcntl.h>

#include <cerrno>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace hindsight {

absl::StatusOr<int32_t> ModuleStore::Add(const std::string& path, int fd, uint64_t max_bytes) {
  UniqueFd opened;
  if (fd < 0) {
    opened.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened.valid()) return absl::ErrnoToStatus(errno, path);
    fd = opened.get();
  }
  ASSIGN_OR_RETURN(const auto contents, stored_->Take(path, fd, max_bytes));
  Module module;
  module.path = path;
  module.size_bytes = contents->size_bytes;
  module.hash = contents->hash;
  module.build_id = contents->build_id;
  module.stored = !module.hash.empty();
  const std::string identity = absl::StrCat(path, "\n", module.hash, "\n", module.size_bytes);
  if (const auto known = by_identity_.find(identity); known != by_identity_.end()) {
    // The list has the bytes in use already.
    if (module.stored) RETURN_IF_ERROR(stored_->Drop(module.hash));
    return known->second;
  }
  const int32_t index = next_++;
  // The bytes have come first: a reader that finds the module in the list can read them.
  RETURN_IF_ERROR(
      queue_->Post([list = list_.get(), index, module] { return list->Append(index, module); }));
  by_identity_.emplace(identity, index);
  if (module.stored && by_hash_.emplace(module.hash, index).second) IndexPages(index, *contents);
  modules_[index] = {.identity = identity, .contents = contents};
  return index;
}

void ModuleStore::IndexPages(int32_t index, const ModuleContents& contents) {
  uint64_t offset = 0;
  for (const PageIndex::Hash& hash : contents.pages) {
    pages_->Add(hash, {PageSourceKind::kModule, static_cast<uint32_t>(index), offset});
    offset += kPageBytes;
  }
}

absl::Status ModuleStore::Release(absl::Span<const int32_t> modules, uint64_t next) {
  std::vector<int32_t> released;
  absl::flat_hash_set<uint32_t> indexed;
  for (const int32_t index : modules) {
    const auto known = modules_.find(index);
    if (known == modules_.end()) continue;
    released.push_back(index);
    by_identity_.erase(known->second.identity);
    const auto first = by_hash_.find(known->second.contents->hash);
    if (first != by_hash_.end() && first->second == index) {
      by_hash_.erase(first);
      indexed.insert(static_cast<uint32_t>(index));
    }
    modules_.erase(known);
  }
  if (released.empty()) return absl::OkStatus();
  if (!indexed.empty()) pages_->ForgetModules(indexed);
  return queue_->Post([list = list_.get(), released = std::move(released), next] {
    list->Release(released, next);
    return absl::OkStatus();
  });
}

}  // namespace hindsight
