// Reading full keyframes: the page groups of all of a trace's keyframes, and one keyframe.

#ifndef HINDSIGHT_TRACEFMT_FULL_KEYFRAME_FILE_H_
#define HINDSIGHT_TRACEFMT_FULL_KEYFRAME_FILE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tracefmt/modules/module_files.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// The stored pages of all keyframe files, decoded group by group as asked for; the groups last
// used are kept.
//
// Any number of threads may read at once; AddFile comes before any of them.
class PageGroups {
 public:
  // Says where the groups of keyframe `number` of the trace in `files` begin in its file.
  void AddFile(uint64_t number, TraceDirectory files, std::vector<uint64_t> group_offsets) {
    files_[number] = {std::move(files), std::move(group_offsets)};
  }

  // Copies stored page `position` of keyframe `number`.
  absl::Status Read(uint64_t number, uint64_t position, absl::Span<uint8_t> out) const;

 private:
  struct File {
    TraceDirectory files;
    std::vector<uint64_t> group_offsets;
  };
  // A decoded block and the pages inside it.
  struct Group {
    RawBlock block;
    absl::Span<const uint8_t> bytes;
  };
  using Key = std::pair<uint64_t, uint64_t>;  // keyframe, group
  using Cached = std::pair<Key, std::shared_ptr<const Group>>;

  absl::StatusOr<std::shared_ptr<const Group>> Find(const File& file, Key key) const;

  std::map<uint64_t, File> files_;
  mutable std::mutex mutex_;
  mutable std::list<Cached> cache_;  // newest first; guarded by mutex_
};

// Opens keyframe `number` of the trace in `files`, which is file `name` of full/, and tells
// `groups` of its pages. The table is read when first needed. `groups`, `modules` and `budget`, for
// what the keyframe keeps, are borrowed.
absl::StatusOr<std::shared_ptr<const FullKeyframe>> OpenFullKeyframe(
    const TraceDirectory& files, const std::string& uuid, const std::string& name, uint64_t number,
    PageGroups* groups, const ModuleFiles* modules, ReadBudget* budget);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_FULL_KEYFRAME_FILE_H_
