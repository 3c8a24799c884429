// Running and stepping forward, and stepping backward over a range.

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "keyframes/thread_timeline.h"

namespace hindsight {
namespace {

// At most about 20 ms of replay between two looks at the interrupt flag.
constexpr uint64_t kPollStates = 2'000'000;

// Segments replayed one after the other before several are searched at once: a search costs the
// replay of a whole segment before it says anything.
constexpr int kSegmentsBeforeSearch = 1;

bool InRange(const RunRequest& request, uint64_t pc) {
  return pc >= request.range_start && pc < request.range_end;
}

void Update(const WatchedImport& import, std::vector<WatchedImport>* known) {
  std::erase_if(*known, [&](const WatchedImport& old) {
    return old.index == import.index && old.page == import.page;
  });
  known->push_back(import);
}

// Imports whose bytes are not those in `known`.
std::vector<WatchedImport> News(const std::vector<WatchedImport>& known,
                                const std::vector<WatchedImport>& imports) {
  std::vector<WatchedImport> news;
  for (const WatchedImport& import : imports) {
    const bool same = std::any_of(known.begin(), known.end(), [&](const WatchedImport& old) {
      return old.index == import.index && old.page == import.page && old.bytes == import.bytes;
    });
    if (!same) news.push_back(import);
  }
  return news;
}

}  // namespace

absl::StatusOr<RunStop> ThreadTimeline::RunForward(const RunRequest& request) {
  const std::optional<EventStop> event = NextEventStop(request, count());
  const uint64_t limit = event.has_value() ? event->count : state_.end_count();
  if (breakpoints_.empty() && watchpoints_.empty()) {
    // Nothing to look for on the way.
    absl::Status status = GoTo(limit, /*dense=*/false, request.interrupt);
    if (absl::IsCancelled(status)) return RunStop{.kind = RunStopKind::kInterrupted};
    RETURN_IF_ERROR(status);
    return event.has_value() ? event->stop : RunStop{.kind = RunStopKind::kEnd};
  }
  ASSIGN_OR_RETURN(std::optional<RunStop> stop, RunForwardTo(request, limit));
  if (stop.has_value()) return *stop;
  return event.has_value() ? event->stop : RunStop{.kind = RunStopKind::kEnd};
}

// Runs to `limit` unless a breakpoint, a watchpoint or an interrupt comes first.
absl::StatusOr<std::optional<RunStop>> ThreadTimeline::RunForwardTo(const RunRequest& request,
                                                                    uint64_t limit) {
  std::optional<uint64_t> leave;
  if (request.leave_first_breakpoint) leave = count();
  int entered = 0;
  while (count() < limit) {
    if (Raised(request)) return RunStop{.kind = RunStopKind::kInterrupted};
    std::vector<WatchedImport> imports;
    LegEnd end = LegEnd::kLimit;
    if (here_->at_end()) {
      RememberWatched();
      if (++entered > kSegmentsBeforeSearch) {
        RETURN_IF_ERROR(EnterNextInteresting(request, limit, &imports));
      } else {
        RETURN_IF_ERROR(EnterNextSegment());
        imports = WatchedAtStart(*trace_, *here_, watchpoints_);
      }
    } else {
      here_->SetStops(breakpoints_, watchpoints_);
      ASSIGN_OR_RETURN(end, here_->RunLeg({.limit = std::min(limit, count() + kPollStates),
                                           .leave_first_breakpoint = leave == count()}));
      imports = here_->unknown_imports();
    }
    if (end == LegEnd::kBreakpoint) {
      if (std::optional<size_t> index = MatchingBreakpoint(request)) {
        return RunStop{.kind = RunStopKind::kBreakpoint, .index = *index};
      }
      leave = count();
    }
    std::optional<WatchHit> hit;
    if (end == LegEnd::kWatch) hit = here_->watch_hit();
    if (!hit.has_value() && !imports.empty()) {
      ASSIGN_OR_RETURN(hit, ChangedImport(imports));
    }
    if (hit.has_value() && WatchHolds(request, hit->index)) {
      RETURN_IF_ERROR(EnterLaterSegment());
      return WatchStop(request, *hit);
    }
  }
  RETURN_IF_ERROR(EnterLaterSegment());
  return std::nullopt;
}

// Goes to the beginning of the next segment that has something to stop for, or in which `limit`
// lies, by searching those between several at once; after an interrupt, as far as was searched.
// `imports`: watched pages it begins with that may have changed since.
absl::Status ThreadTimeline::EnterNextInteresting(const RunRequest& request, uint64_t limit,
                                                  std::vector<WatchedImport>* imports) {
  const uint64_t next = here_->segment().info().number + 1;
  uint64_t searched = next;  // the first segment that was not, or that has something
  // Watched bytes as the segments left behind had them at their ends.
  std::vector<WatchedImport> known = WatchedBytes(*here_, watchpoints_);
  auto take = [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(std::optional<WatchHit> change,
                     ChangedImport(News(known, hits.trace.unknown)));
    if (hits.trace.any() || change.has_value()) return true;
    // The order matters: of a page that came in, the end is what counts.
    for (const WatchedImport& import : hits.trace.unknown) Update(import, &known);
    for (const WatchedImport& ending : hits.endings) Update(ending, &known);
    searched = hits.number + 1;
    return false;
  };
  const uint64_t last = state_.SegmentAt(limit);
  if (last > next) {
    const SegmentSearch::Request search = {.from = next,
                                           .to = last - 1,
                                           .breakpoints = &breakpoints_,
                                           .watchpoints = &watchpoints_,
                                           .interrupt = request.interrupt};
    const absl::Status status = search_.Run(search, take);
    if (!status.ok() && !absl::IsCancelled(status)) return status;
  }
  RETURN_IF_ERROR(EnterSegment(searched));
  *imports = News(known, WatchedAtStart(*trace_, *here_, watchpoints_));
  return absl::OkStatus();
}

// Of two segments that meet in the present state the timeline stands in the later one.
absl::Status ThreadTimeline::EnterLaterSegment() {
  if (state_.SegmentAt(count()) == here_->segment().info().number) return absl::OkStatus();
  return EnterNextSegment();
}

// Keeps the ends of watched pages, so that what the next segment imports can be compared.
void ThreadTimeline::RememberWatched() {
  std::array<uint8_t, kPageBytes> bytes;
  for (const WatchedImport& watched : WatchedBytes(*here_, watchpoints_)) {
    if (here_->ReadHeld(watched.page, absl::MakeSpan(bytes))) {
      memory_.Remember(here_->segment().info().number, watched.page, bytes);
    }
  }
}

absl::StatusOr<std::optional<WatchHit>> ThreadTimeline::ChangedImport(
    const std::vector<WatchedImport>& imports) {
  std::array<uint8_t, kPageBytes> before;
  for (const WatchedImport& import : imports) {
    if (import.count == state_.begin_count()) continue;
    // Seen from the state before, the segment's own keyframe does not count as known.
    absl::Status status = memory_.ReadBefore(state_.SegmentAt(import.count), import.count - 1,
                                             import.page, absl::MakeSpan(before));
    if (absl::IsNotFound(status)) continue;
    RETURN_IF_ERROR(status);
    const uint64_t offset = WatchedIn(import.page, watchpoints_[import.index]).offset;
    for (uint64_t i = 0; i < import.bytes.size(); ++i) {
      if (before[offset + i] == static_cast<uint8_t>(import.bytes[i])) continue;
      return WatchHit{import.count - 1, import.index, import.page + offset + i};
    }
  }
  return std::nullopt;
}

absl::StatusOr<RunStop> ThreadTimeline::StepRange(const RunRequest& request) {
  const bool forward = request.direction == RunDirection::kForward;
  for (bool first = true;; first = false) {
    if (!first && Raised(request)) return RunStop{.kind = RunStopKind::kInterrupted};
    std::optional<WatchHit> hit;
    ASSIGN_OR_RETURN(bool moved, forward ? StepWatching(&hit) : StepBackWatching(&hit));
    if (!moved) return RunStop{.kind = forward ? RunStopKind::kEnd : RunStopKind::kBegin};
    if (hit.has_value() && WatchHolds(request, hit->index)) return WatchStop(request, *hit);
    if (std::optional<RunStop> stop = EventStopAt(request, count())) return *stop;
    if (!InRange(request, here_->pc())) return RunStop{.kind = RunStopKind::kStep};
    if (!here_->discontinuity_is_signal()) {
      if (std::optional<size_t> index = MatchingBreakpoint(request)) {
        return RunStop{.kind = RunStopKind::kBreakpoint, .index = *index};
      }
    }
  }
}

absl::StatusOr<bool> ThreadTimeline::StepWatching(std::optional<WatchHit>* hit) {
  if (watchpoints_.empty() || here_->at_end()) return StepForward();
  here_->SetStops(breakpoints_, watchpoints_);
  SegmentReplay* const stepped = here_;
  ASSIGN_OR_RETURN(bool moved, StepForward());
  if (stepped->step_hit_watch()) *hit = stepped->watch_hit();
  return moved;
}

// Whether the transition stepped back over touched a watched location shows when it is made again.
absl::StatusOr<bool> ThreadTimeline::StepBackWatching(std::optional<WatchHit>* hit) {
  ASSIGN_OR_RETURN(bool moved, StepBackward());
  if (!moved || watchpoints_.empty() || here_->at_end()) return moved;
  const uint64_t target = count();
  here_->TakeCheckpoint();
  here_->SetStops(breakpoints_, watchpoints_);
  RETURN_IF_ERROR(here_->Step());
  if (here_->step_hit_watch()) *hit = here_->watch_hit();
  RETURN_IF_ERROR(here_->MoveTo(target, /*dense=*/false));
  return moved;
}

}  // namespace hindsight
