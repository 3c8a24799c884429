// MemoryView: what the threads' views have of a page.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "keyframes/memory/memory_view.h"

namespace hindsight {
namespace {

bool Raised(const std::atomic<bool>* interrupt) {
  return interrupt != nullptr && interrupt->load(std::memory_order_relaxed);
}

}  // namespace

absl::StatusOr<MemoryView::Findings> MemoryView::AskThreads(const Question& question) {
  Findings findings;
  const uint64_t keyframe = KeyframeMoment(question.moment);
  for (int32_t other : process_->threads().all()) {
    if (process_->threads().StartOf(other) > question.moment) continue;
    if (Raised(question.interrupt)) return absl::CancelledError("interrupted");
    if (HasEnded(other, keyframe) || !HasRunSince(other, question)) continue;
    uint64_t newest = question.number;
    bool asked = false;
    if (other != question.thread || question.ask_own) {
      newest =
          process_->thread(other).SegmentAt(process_->schedule().CountAt(other, question.moment));
      ASSIGN_OR_RETURN(asked, AskPresent(question, other, &findings));
    }
    if (!asked) RETURN_IF_ERROR(AskEarlier(question, other, newest, &findings));
  }
  return findings;
}

// What `thread` has of the page in its present segment. False if it has not touched it
// there.
absl::StatusOr<bool> MemoryView::AskPresent(const Question& question, int32_t thread,
                                            Findings* findings) {
  const uint64_t page = question.page;
  const uint64_t count = process_->schedule().CountAt(thread, question.moment);
  const uint64_t number = process_->thread(thread).SegmentAt(count);
  const SegmentKey key = {thread, number};
  ASSIGN_OR_RETURN(const TouchedPages* touched, touched_.Of(key));
  const TouchedPage* last = touched->LastOf(page, count);
  if (last == nullptr) return false;
  if (!last->left) {
    Knowledge knowledge{.thread = thread, .ended = std::nullopt, .latest = 0, .bytes = {}};
    bool before_turn = false;
    ASSIGN_OR_RETURN(const bool held, ReadPresent(question, thread, &knowledge, &before_turn));
    if (held) {
      // One that waits since before has not seen what has become of the page.
      if (question.origin > question.floor &&
          VerifiedMoment(knowledge, question.moment) < question.origin) {
        return true;
      }
      ASSIGN_OR_RETURN(const bool lost, LosesInTurnToCome(key, before_turn, question, findings));
      if (lost) return true;
      knowledge.latest = NewestMoment(knowledge, question.moment);
      ASSIGN_OR_RETURN(const auto replaced, replacements_.Since(key, question.moment, page));
      Add(std::move(knowledge), replaced, findings);
      return true;
    }
    // Imports of the turn to come are not seen yet.
    if (before_turn && last->count == count) return false;
  }
  if (last->count > FirstCountOf(question, thread)) {
    const uint64_t moment = process_->schedule().MomentTo(thread, last->count);
    findings->lost = std::max(findings->lost.value_or(0), std::min(moment, question.moment));
  }
  return true;
}

// Of a thread that `waits` in the last state of the segment that counts: whether it no longer had
// the page when it stopped, as far as is known.
absl::StatusOr<bool> MemoryView::LosesInTurnToCome(const SegmentKey& key, bool waits,
                                                   const Question& question, Findings* findings) {
  if (!waits) return false;
  ASSIGN_OR_RETURN(const bool later,
                   replacements_.IsOfTurnToCome(key, question.moment, question.page));
  if (!later) return false;
  const Schedule& schedule = process_->schedule();
  const uint64_t stopped =
      schedule.MomentTo(key.first, schedule.CountAt(key.first, question.moment));
  findings->lost = std::max(findings->lost.value_or(0), stopped);
  return true;
}

// Whether the thread waits for a turn that begins in the state it is in.
bool MemoryView::WaitsAt(int32_t thread, uint64_t moment) const {
  const Schedule& schedule = process_->schedule();
  const size_t turn = schedule.NextSliceOf(thread, moment);
  return turn < schedule.slices().size() &&
         schedule.slices()[turn].count == schedule.CountAt(thread, moment);
}

// What is in the view of `thread` at the moment asked about; false if the page is not. In the past
// that is looked up aside: the threads' own replays may be in the middle of a search.
absl::StatusOr<bool> MemoryView::ReadPresent(const Question& question, int32_t thread,
                                             Knowledge* knowledge, bool* before_turn) {
  if (question.moves == 0) {
    ASSIGN_OR_RETURN(const SegmentReplay* replay,
                     views_->ReplayAt(thread, question.moment, question.interrupt));
    *before_turn = replay->before_turn();
    return replay->ReadHeld(question.page, absl::MakeSpan(knowledge->bytes));
  }
  const Schedule& schedule = process_->schedule();
  const uint64_t count = schedule.CountAt(thread, question.moment);
  *before_turn = WaitsAt(thread, question.moment);
  const StateKey key = {.segment = {thread, process_->thread(thread).SegmentAt(count)},
                        .count = count,
                        .before_turn = *before_turn};
  ASSIGN_OR_RETURN(const Ending* state, EndingOf(key, question.interrupt));
  const auto it = state->offset.find(question.page);
  if (it == state->offset.end()) return false;
  std::memcpy(knowledge->bytes.data(), state->bytes.data() + it->second, kPageBytes);
  return true;
}

// What `thread` had of the page at the end of the newest segment before `number` that touched it.
absl::Status MemoryView::AskEarlier(const Question& question, int32_t thread, uint64_t number,
                                    Findings* findings) {
  const uint64_t oldest =
      process_->thread(thread).SegmentAt(process_->schedule().CountAt(thread, question.floor));
  const uint64_t first_count = FirstCountOf(question, thread);
  const uint64_t count = process_->schedule().CountAt(thread, question.moment);
  while (number > oldest) {
    --number;
    const SegmentKey key = {thread, number};
    if (EndCountOf(key) <= first_count) return absl::OkStatus();
    Knowledge knowledge{.thread = thread, .ended = number, .latest = 0, .bytes = {}};
    knowledge.latest = NewestMoment(knowledge, question.moment);
    const bool waits = EndCountOf(key) == count && WaitsAt(thread, question.moment);
    ASSIGN_OR_RETURN(const bool lost, LosesInTurnToCome(key, waits, question, findings));
    if (lost) return absl::OkStatus();
    if (auto it = remembered_.find({key, question.page}); it != remembered_.end()) {
      std::copy(it->second.begin(), it->second.end(), knowledge.bytes.begin());
      ASSIGN_OR_RETURN(const auto replaced,
                       replacements_.Since(key, question.moment, question.page));
      Add(std::move(knowledge), replaced, findings);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const TouchedPages* touched, touched_.Of(key));
    const TouchedPage* last = touched->LastOf(question.page, ~uint64_t{0});
    if (last == nullptr) continue;
    if (last->left) {
      if (last->count <= first_count) return absl::OkStatus();
      const uint64_t moment = process_->schedule().MomentTo(thread, last->count);
      findings->lost = std::max(findings->lost.value_or(0), moment);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Ending* ending, EndingOf({.segment = key}, question.interrupt));
    auto it = ending->offset.find(question.page);
    if (it == ending->offset.end()) continue;  // its import lies after the segment's last state
    std::memcpy(knowledge.bytes.data(), ending->bytes.data() + it->second, kPageBytes);
    ASSIGN_OR_RETURN(const auto replaced, replacements_.Since(key, question.moment, question.page));
    Add(std::move(knowledge), replaced, findings);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace hindsight
