// The reference segments that are in use, each loaded once.

#ifndef HINDSIGHT_TRACEFMT_REFERENCE_CACHE_H_
#define HINDSIGHT_TRACEFMT_REFERENCE_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tracefmt/segment_file.h"

namespace hindsight {

// Keeps them as long as a segment that refers to them is held, and the last one, since who reads
// segments one after the other holds none in between. Any host thread.
class ReferenceCache {
 public:
  using Loaded = absl::StatusOr<std::shared_ptr<const ReferenceSegment>>;

  // Segment `number` of `thread`, from `load` if it is not here.
  Loaded Get(int32_t thread, uint64_t number, absl::FunctionRef<Loaded()> load);

 private:
  using Key = std::pair<int32_t, uint64_t>;

  std::mutex mutex_;  // guards all below; held while one is loaded: others wait for the same
  std::map<Key, std::weak_ptr<const ReferenceSegment>> loaded_;
  std::shared_ptr<const ReferenceSegment> last_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_REFERENCE_CACHE_H_
