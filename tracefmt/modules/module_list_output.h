// The file modules/list of a trace being written.
//
// Not copyable. Used on the write queue, but for size: once that is drained.

#ifndef HINDSIGHT_TRACEFMT_MODULES_MODULE_LIST_OUTPUT_H_
#define HINDSIGHT_TRACEFMT_MODULES_MODULE_LIST_OUTPUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/modules/stored_modules.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/output_directory.h"

namespace hindsight {

class ModuleListOutput {
 public:
  // `directory` is the trace's modules/. The others are borrowed.
  ModuleListOutput(const OutputDirectory& directory, StoredModules* stored, BlockEncoder* encoder,
                   std::atomic<uint64_t>* bytes_written)
      : directory_(directory), stored_(stored), encoder_(encoder), bytes_written_(bytes_written) {}
  ModuleListOutput(const ModuleListOutput&) = delete;
  ModuleListOutput& operator=(const ModuleListOutput&) = delete;

  // Makes the file, once, before all else.
  absl::Status Create();
  // Takes over the module's use of its bytes in StoredModules. Indices are consecutive.
  absl::Status Append(int32_t index, const Module& module);

  // Neither full keyframe `keyframe` nor what comes after it refers to `modules`.
  void Release(const std::vector<int32_t>& modules, uint64_t keyframe);
  // The trace begins at full keyframe `first` by now: modules that it does not refer to go.
  absl::Status DropBefore(uint64_t first);
  // The trace has gone, this file with it.
  absl::Status DropAll();

  size_t size() const { return listed_.size(); }  // modules
  uint64_t bytes() const { return file_ == nullptr ? 0 : file_->size(); }

 private:
  struct Listed {
    Module module;
    uint64_t last = ~uint64_t{0};  // from this full keyframe on nothing refers to it
  };

  // Whether the modules needed from full keyframe `first` on go into one block.
  bool FitsBlock(uint64_t first) const;
  absl::Status DropBytes(const Module& module);
  // Writes the list anew, as it is.
  absl::Status Replace();

  const OutputDirectory directory_;
  StoredModules* const stored_;
  BlockEncoder* const encoder_;
  std::atomic<uint64_t>* const bytes_written_;
  std::unique_ptr<AppendFile> file_;
  std::map<int32_t, Listed> listed_;
  std::vector<int32_t> released_;  // of these
  int32_t next_ = 0;               // index
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MODULES_MODULE_LIST_OUTPUT_H_
