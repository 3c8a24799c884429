#include "tracefmt/reference_cache.h"

#include "base/status_macros.h"

namespace hindsight {

ReferenceCache::Loaded ReferenceCache::Get(int32_t thread, uint64_t number,
                                           absl::FunctionRef<Loaded()> load) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::weak_ptr<const ReferenceSegment>& kept = loaded_[{thread, number}];
  std::shared_ptr<const ReferenceSegment> segment = kept.lock();
  if (segment == nullptr) {
    // Before another one is loaded: the two may be large.
    last_.reset();
    ASSIGN_OR_RETURN(segment, load());
    kept = segment;
  }
  last_ = segment;
  return segment;
}

}  // namespace hindsight
