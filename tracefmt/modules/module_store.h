// The modules of a trace being written.
//
// Not copyable. One host thread at a time.

#ifndef HINDSIGHT_TRACEFMT_MODULES_MODULE_STORE_H_
#define HINDSIGHT_TRACEFMT_MODULES_MODULE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tracefmt/modules/module_contents.h"
#include "tracefmt/modules/module_list_output.h"
#include "tracefmt/modules/stored_modules.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/page_index.h"
#include "tracefmt/storage/write_queue.h"

namespace hindsight {

class ModuleStore {
 public:
  // `list` is used on the queue. The others are borrowed; `pages` gets the pages of every module
  // stored.
  ModuleStore(StoredModules* stored, std::shared_ptr<ModuleListOutput> list, WriteQueue* queue,
              PageIndex* pages)
      : stored_(stored), list_(std::move(list)), queue_(queue), pages_(pages) {}
  ModuleStore(const ModuleStore&) = delete;
  ModuleStore& operator=(const ModuleStore&) = delete;

  // As TraceWriter::AddModule. A file that cannot be read is kNotFound or the like and changes
  // nothing; what is wrong with the trace's own files is the queue's status.
  absl::StatusOr<int32_t> Add(const std::string& path, int fd, uint64_t max_bytes);
  // Full keyframe `next`, which has not begun, and what comes after it do not refer to `modules`.
  absl::Status Release(absl::Span<const int32_t> modules, uint64_t next);

  // Null: there is no such module.
  std::shared_ptr<const ModuleContents> ContentsOf(int32_t index) const {
    const auto found = modules_.find(index);
    return found == modules_.end() ? nullptr : found->second.contents;
  }
  // Whether module `index` may be referred to and its bytes are stored.
  bool IsStored(int32_t index) const {
    const auto found = modules_.find(index);
    return found != modules_.end() && !found->second.contents->hash.empty();
  }

 private:
  struct Known {
    std::string identity;  // path, hash, size
    std::shared_ptr<const ModuleContents> contents;
  };

  void IndexPages(int32_t index, const ModuleContents& contents);

  StoredModules* const stored_;
  const std::shared_ptr<ModuleListOutput> list_;
  WriteQueue* const queue_;
  PageIndex* const pages_;
  int32_t next_ = 0;
  absl::flat_hash_map<int32_t, Known> modules_;
  absl::flat_hash_map<std::string, int32_t> by_identity_;
  absl::flat_hash_map<std::string, int32_t> by_hash_;  // the first with these bytes
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MODULES_MODULE_STORE_H_
