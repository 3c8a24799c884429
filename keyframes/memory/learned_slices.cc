#include "keyframes/memory/learned_slices.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace hindsight {

size_t LearnedSlices::Began(const KnownByte& known) const {
  const Schedule& schedule = process_.schedule();
  const Learned& learned = known.learned;
  if (learned.imported) return schedule.TurnIn(known.thread, learned.count, learned.turn);
  const std::vector<uint32_t>& indices = schedule.slices_of(known.thread);
  const auto after = std::partition_point(indices.begin(), indices.end(), [&](uint32_t index) {
    return schedule.slices()[index].count < learned.count;
  });
  return after == indices.begin() ? indices.front() : *std::prev(after);
}

size_t LearnedSlices::WasOver(const KnownByte& known) {
  const size_t slice = Began(known);
  if (known.learned.imported) return slice;
  const Ending& ending = EndingOf(known.thread, slice);
  return ending.last_event >= known.learned.count ? slice : ending.next;
}

const LearnedSlices::Ending& LearnedSlices::EndingOf(int32_t thread, size_t slice) {
  const auto [it, is_new] = endings_.try_emplace(slice);
  if (!is_new) return it->second;
  const std::vector<Slice>& slices = process_.schedule().slices();
  const std::vector<uint32_t>& indices = process_.schedule().slices_of(thread);
  const auto next = std::upper_bound(indices.begin(), indices.end(), slice);
  it->second.next = next == indices.end() ? slices.size() : *next;
  const uint64_t limit = next == indices.end() ? ~uint64_t{0} : slices[*next].sequence;
  const uint64_t end = slices[slice].count + slices[slice].length;
  it->second.last_event = end - process_.thread(thread).PositionAt(end, limit).steps;
  return it->second;
}

}  // namespace hindsight
