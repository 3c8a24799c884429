#include "keyframes/memory/newest_bytes.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
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

// Which of two is newer.
class NewestBytes::Order {
 public:
  Order(const ProcessState* process, const Question& question)
      : process_(*process), question_(question) {}

  bool IsNewer(const Known& known, const Known& than) {
    const bool later = known.learned.moment > than.learned.moment;
    if (!question_.at_once) return later;
    const bool is_write = !known.learned.imported, than_write = !than.learned.imported;
    const bool is_own = than.thread == question_.running;
    if (is_own && WasOver(known) >= process_.schedule().SliceAt(question_.moment)) return false;
    if (than_write && (is_own || !is_write)) return Began(known) > WasOver(than);
    if (is_write && !than_write) return WasOver(known) >= Began(than);
    return later;
  }

 private:
  const std::vector<Slice>& slices() const { return process_.schedule().slices(); }

  // Index of the slice that it lies in.
  size_t Began(const Known& known) const {
    const Learned& learned = known.learned;
    if (learned.imported) return process_.schedule().FirstTurnIn(known.thread, learned.count);
    const std::vector<uint32_t>& indices = process_.schedule().slices_of(known.thread);
    const auto after = std::partition_point(indices.begin(), indices.end(), [&](uint32_t index) {
      return slices()[index].count < learned.count;
    });
    return after == indices.begin() ? indices.front() : *std::prev(after);
  }
  // Index of the slice by whose numbers it was over: its own, if it is an event itself (a locked
  // instruction), one of the thread follows there, or what the thread saw begins it; else the
  // thread's next one.
  size_t WasOver(const Known& known) {
    const size_t slice = Began(known);
    if (known.learned.imported) return slice;
    const Ending& ending = EndingOf(known.thread, slice);
    return ending.last_event >= known.learned.count ? slice : ending.next;
  }

  struct Ending {
    uint64_t last_event = 0;  // the state that the last event in the slice led to
    size_t next = 0;          // the thread's next slice, or slices().size()
  };
  const Ending& EndingOf(int32_t thread, size_t slice) {
    const auto [it, is_new] = endings_.try_emplace(slice);
    if (!is_new) return it->second;
    const std::vector<uint32_t>& indices = process_.schedule().slices_of(thread);
    const auto next = std::upper_bound(indices.begin(), indices.end(), slice);
    it->second.next = next == indices.end() ? slices().size() : *next;
    const uint64_t limit = next == indices.end() ? ~uint64_t{0} : slices()[*next].sequence;
    const uint64_t end = slices()[slice].count + slices()[slice].length;
    it->second.last_event = end - process_.thread(thread).PositionAt(end, limit).steps;
    return it->second;
  }

  const ProcessState& process_;
  const Question& question_;
  absl::flat_hash_map<size_t, Ending> endings_;
};

absl::Status NewestBytes::Merge(absl::Span<const ThreadPage> known, const Question& question,
                                absl::Span<uint8_t> out) const {
  std::memcpy(out.data(), known.front().bytes.data(), kPageBytes);
  PageBits differ = BytesThatDiffer(known);
  if (question.wanted != nullptr) differ &= *question.wanted;
  if (differ.none()) return absl::OkStatus();
  std::vector<Known> newest(kPageBytes);
  Order order(process_, question);
  for (const ThreadPage* candidate : InOrder(known, question.running)) {
    PageBits open;
    uint64_t since = question.moment;
    for (size_t i = 0; i < newest.size(); ++i) {
      if (!differ[i]) continue;
      const Learned& best = newest[i].learned;
      // An earlier write may be newer than an import.
      const bool any = newest[i].thread == 0 || (question.at_once && best.imported);
      if (!any && best.moment >= candidate->latest) continue;
      open.set(i);
      since = std::min(since, any ? 0 : best.moment);
    }
    if (open.none()) continue;
    ASSIGN_OR_RETURN(const std::vector<Learned> learned,
                     views_->LastKnown(candidate->thread, candidate->ended, question.moment,
                                       question.page, open, since, question.interrupt));
    for (size_t i = 0; i < newest.size(); ++i) {
      if (!open[i]) continue;
      const Known found = {candidate->thread, learned[i]};
      if (newest[i].thread != 0 && !order.IsNewer(found, newest[i])) continue;
      newest[i] = found;
      out[i] = candidate->bytes[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace hindsight
