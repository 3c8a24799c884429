// When the stores of a thread first made memory what somebody has seen of it: how far the thread
// had come by then.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_FIRST_STORES_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_FIRST_STORES_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "keyframes/memory/thread_views.h"
#include "keyframes/timeline/thread_replay.h"

namespace hindsight {

// Fills in what StoredLine says of stores, from the state `from` to the replay's present one.
// `goes_on`: it has been for the segment before, which ended in `from`. Where there are very many
// stores, only what the first ones have made is found. Afterwards it is in a state in between, and
// stops set in the replay are gone. Requires: it has a present state.
absl::Status FindFirstStores(ThreadReplay* replay, uint64_t from, bool goes_on,
                             absl::Span<StoredLine> lines, const std::atomic<bool>* interrupt);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_FIRST_STORES_H_
