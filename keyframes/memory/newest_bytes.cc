#include "keyframes/memory/newest_bytes.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "keyframes/memory/learned_slices.h"
#include "keyframes/memory/seen_stores.h"
#include "keyframes/memory/touched_pages.h"

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
  Order(const ProcessState* process, ThreadViews* views, const Question& question)
      : process_(*process),
        views_(views),
        question_(question),
        slices_(process),
        seen_(process, views, question.moment, question.interrupt) {}

  // Which byte of the page it is, is for looking up more of it.
  absl::StatusOr<bool> IsNewer(KnownByte known, const KnownByte& than, size_t byte) {
    const bool later = known.learned.moment > than.learned.moment;
    if (!question_.at_once) return later;
    const bool is_own = than.thread == question_.running;
    size_t over = slices_.WasOver(known);
    if (is_own && over >= process_.schedule().SliceAt(question_.moment)) {
      if (known.learned.imported) RETURN_IF_ERROR(LookBeforeSegment(byte, &known));
      if (known.learned.imported) return false;
      ASSIGN_OR_RETURN(const auto seen, seen_.FirstSight(known, /*only_told=*/false, &slices_));
      if (!seen.has_value()) return false;
      over = seen->slice;
    }
    const bool is_write = !known.learned.imported, than_write = !than.learned.imported;
    if (than_write && (is_own || !is_write)) return BeganAfter(known, than);
    if (!is_write || than_write) return later;
    if (over < slices_.Began(than)) return false;
    ASSIGN_OR_RETURN(const auto seen, seen_.FirstSight(known, /*only_told=*/true, &slices_));
    return !seen.has_value() || seen->moment >= than.learned.moment;
  }

 private:
  // Whether a write was over when the other one began, or the import.
  absl::StatusOr<bool> BeganAfter(const KnownByte& known, const KnownByte& write) {
    const size_t began = slices_.Began(known);
    if (began > slices_.WasOver(write)) return true;
    if (began < slices_.Began(write)) return false;
    ASSIGN_OR_RETURN(const auto seen, seen_.FirstSight(write, /*only_told=*/false, &slices_));
    if (!seen.has_value()) return false;
    // What the thread has written after it has seen the other's.
    const bool after = !known.learned.imported && known.learned.moment > seen->moment;
    return began > seen->slice || (began == seen->slice && after);
  }
  // Of a byte that the thread's present segment began with: what was last learned or written of it
  // in the one before.
  absl::Status LookBeforeSegment(size_t byte, KnownByte* known) {
    const auto [it, is_new] = begins_.try_emplace(known->thread);
    if (is_new) {
      ASSIGN_OR_RETURN(it->second, BeginOf(known->thread));
    }
    const Begin& begin = it->second;
    if (!begin.had_page || known->learned.count != begin.count) return absl::OkStatus();
    PageBits bit;
    bit.set(byte);
    ASSIGN_OR_RETURN(const std::vector<Learned> learned,
                     views_->LastKnown(known->thread, begin.number - 1, question_.moment,
                                       question_.page, bit, /*since=*/0, question_.interrupt));
    known->learned = learned[byte];
    return absl::OkStatus();
  }

  // The present segment of a thread, and whether the one before had the page.
  struct Begin {
    uint64_t number = 0;
    uint64_t count = 0;
    bool had_page = false;
  };
  absl::StatusOr<Begin> BeginOf(int32_t thread) {
    ASSIGN_OR_RETURN(const auto segment, SegmentAt(thread, question_.moment));
    if (segment == nullptr || segment->info().number == 0) return Begin();
    Begin begin = {.number = segment->info().number, .count = segment->info().first_count};
    const uint64_t began = process_.schedule().MomentTo(thread, begin.count);
    if (began == 0) return begin;
    ASSIGN_OR_RETURN(const auto before, SegmentAt(thread, began - 1));
    begin.had_page =
        before != nullptr && before->info().number + 1 == begin.number &&
        TouchedPages(before->records()).LastOf(question_.page, ~uint64_t{0}) != nullptr;
    return begin;
  }

  // Null: it is not there.
  absl::StatusOr<std::shared_ptr<const Segment>> SegmentAt(int32_t thread, uint64_t moment) {
    absl::StatusOr<std::shared_ptr<const Segment>> segment = views_->SegmentAt(thread, moment);
    if (absl::IsNotFound(segment.status())) return nullptr;
    return segment;
  }

  const ProcessState& process_;
  ThreadViews* const views_;
  const Question& question_;
  LearnedSlices slices_;
  SeenStores seen_;
  absl::flat_hash_map<int32_t, Begin> begins_;  // by thread
};

absl::Status NewestBytes::Merge(absl::Span<const ThreadPage> known, const Question& question,
                                absl::Span<uint8_t> out) const {
  std::memcpy(out.data(), known.front().bytes.data(), kPageBytes);
  PageBits differ = BytesThatDiffer(known);
  if (question.wanted != nullptr) differ &= *question.wanted;
  if (differ.none()) return absl::OkStatus();
  std::vector<KnownByte> newest(kPageBytes);
  Order order(process_, views_, question);
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
      const KnownByte found = {candidate->thread, learned[i]};
      if (newest[i].thread != 0) {
        ASSIGN_OR_RETURN(const bool is_newer, order.IsNewer(found, newest[i], i));
        if (!is_newer) continue;
      }
      newest[i] = found;
      out[i] = candidate->bytes[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace hindsight
