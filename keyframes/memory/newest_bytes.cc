#include "keyframes/memory/newest_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace hindsight {
namespace {

PageBits BytesThatDiffer(absl::Span<const ThreadPage> known) {
  PageBits differ;
  const auto& first = known.front().bytes;
  for (const ThreadPage& other : known.subspan(1)) {
    if (other.bytes == first) continue;
    for (size_t i = 0; i < first.size(); ++i) {
      if (other.bytes[i] != first[i]) differ.set(i);
    }
  }
  return differ;
}

// The thread that runs first, then those who ran last: mostly it is theirs, and of the others it
// need only be known that they have not written since.
std::vector<const ThreadPage*> InOrder(absl::Span<const ThreadPage> known, int32_t running) {
  std::vector<const ThreadPage*> order;
  for (const ThreadPage& page : known) order.push_back(&page);
  std::stable_sort(order.begin(), order.end(), [&](const ThreadPage* a, const ThreadPage* b) {
    if ((a->thread == running) != (b->thread == running)) return a->thread == running;
    return a->latest > b->latest;
  });
  return order;
}

}  // namespace

size_t NewestBytes::SliceOf(int32_t thread, const Learned& learned) const {
  const Schedule& schedule = process_->schedule();
  const std::vector<uint32_t>& indices = schedule.slices_of(thread);
  const auto after = std::partition_point(indices.begin(), indices.end(), [&](uint32_t index) {
    const uint64_t begin = schedule.slices()[index].count;
    return learned.imported ? begin <= learned.count : begin < learned.count;
  });
  return after == indices.begin() ? indices.front() : *std::prev(after);
}

// The slice by whose numbers it was over: its own, if an event of the thread follows there, or one
// that begins with what the thread saw; else the thread's next one.
size_t NewestBytes::OverBy(int32_t thread, const Learned& learned) const {
  const Schedule& schedule = process_->schedule();
  const size_t slice = SliceOf(thread, learned);
  if (learned.imported) return slice;
  const std::vector<uint32_t>& indices = schedule.slices_of(thread);
  const auto next = std::upper_bound(indices.begin(), indices.end(), slice);
  const uint64_t limit = next == indices.end() ? ~uint64_t{0} : schedule.slices()[*next].sequence;
  const uint64_t end = schedule.slices()[slice].count + schedule.slices()[slice].length;
  const Position last = process_->thread(thread).PositionAt(end, limit);
  if (last.steps < end - learned.count) return slice;
  return next == indices.end() ? schedule.slices().size() : *next;
}

bool NewestBytes::IsCertainlyNewer(int32_t thread, const Learned& learned, int32_t than,
                                   const Learned& than_learned, uint64_t moment) const {
  return SliceOf(thread, learned) > OverBy(than, than_learned) &&
         OverBy(thread, learned) < process_->schedule().SliceAt(moment);
}

absl::Status NewestBytes::Merge(absl::Span<const ThreadPage> known, const Question& question,
                                absl::Span<uint8_t> out) const {
  std::memcpy(out.data(), known.front().bytes.data(), kPageBytes);
  const PageBits differ = BytesThatDiffer(known);
  if (differ.none()) return absl::OkStatus();
  struct Newest {
    int32_t thread = 0;  // 0: none yet
    Learned learned;
  };
  std::vector<Newest> newest(kPageBytes);
  for (const ThreadPage* candidate : InOrder(known, question.running)) {
    PageBits open;
    uint64_t since = question.moment;
    for (size_t i = 0; i < newest.size(); ++i) {
      const bool settled = newest[i].thread != 0 && newest[i].learned.moment >= candidate->latest;
      if (!differ[i] || settled) continue;
      open.set(i);
      since = std::min(since, newest[i].thread == 0 ? 0 : newest[i].learned.moment);
    }
    if (open.none()) continue;
    ASSIGN_OR_RETURN(const std::vector<Learned> learned,
                     views_->LastKnown(candidate->thread, candidate->ended, question.moment,
                                       question.page, open, since, question.interrupt));
    for (size_t i = 0; i < newest.size(); ++i) {
      if (!open[i]) continue;
      const Newest& best = newest[i];
      if (best.thread != 0 && learned[i].moment <= best.learned.moment) continue;
      if (best.thread != 0 && best.thread == question.running &&
          !IsCertainlyNewer(candidate->thread, learned[i], best.thread, best.learned,
                            question.moment)) {
        continue;
      }
      newest[i] = {candidate->thread, learned[i]};
      out[i] = candidate->bytes[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace hindsight
