// The search by moment that lists of events, slices and snapshots share. Stateless; any thread.

#ifndef HINDSIGHT_KEYFRAMES_STATE_FIRST_AFTER_H_
#define HINDSIGHT_KEYFRAMES_STATE_FIRST_AFTER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hindsight {

// The first of `items`, which ascend by their member `moment`, that is after `moment`.
template <typename T>
auto FirstAfter(const std::vector<T>& items, uint64_t moment) {
  return std::partition_point(items.begin(), items.end(),
                              [moment](const T& item) { return item.moment <= moment; });
}

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_FIRST_AFTER_H_
