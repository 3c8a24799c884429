#include "keyframes/timeline/forward_search.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Segments replayed one after the other before several are searched at once: a search costs the
// replay of a whole segment before it says anything.
constexpr int kSegmentsBeforeSearch = 1;

void Update(const WatchedImport& import, std::vector<WatchedImport>* known) {
  std::erase_if(*known, [&](const WatchedImport& old) {
    return old.index == import.index && old.page == import.page;
  });
  known->push_back(import);
}

// Imports whose bytes are not those in `known`.
std::vector<WatchedImport> Changed(const std::vector<WatchedImport>& known,
                                   const std::vector<WatchedImport>& imports) {
  std::vector<WatchedImport> changed;
  for (const WatchedImport& import : imports) {
    const bool same = std::any_of(known.begin(), known.end(), [&](const WatchedImport& old) {
      return old.index == import.index && old.page == import.page && old.bytes == import.bytes;
    });
    if (!same) changed.push_back(import);
  }
  return changed;
}

}  // namespace

absl::StatusOr<std::optional<ThreadStop>> ForwardSearch::Run(const RunRequest& request,
                                                             uint64_t from, uint64_t limit,
                                                             bool leave_first) {
  const ReplayPool::Pin pin = replay_.Hold();
  RETURN_IF_ERROR(replay_.GoTo(from, /*dense=*/false, request.interrupt));
  std::optional<uint64_t> leave;
  if (leave_first) leave = from;
  int entered = 0;
  while (replay_.count() < limit) {
    if (request.interrupted()) {
      return ThreadStop{{.kind = StopKind::kInterrupted, .thread = thread()}, replay_.count()};
    }
    std::vector<WatchedImport> imports;
    LegEnd end = LegEnd::kLimit;
    if (replay_.here()->at_end()) {
      RememberWatched();
      if (++entered > kSegmentsBeforeSearch) {
        RETURN_IF_ERROR(EnterNextInteresting(request, limit, &imports));
      } else {
        RETURN_IF_ERROR(replay_.EnterNextSegment());
        imports = WatchedAtStart(*trace_, *replay_.here(), stops_.plain().watchpoints);
      }
    } else {
      stops_.Arm();
      ASSIGN_OR_RETURN(
          end, replay_.here()->RunLeg({.limit = std::min(limit, replay_.count() + kPollStates),
                                       .leave_first_breakpoint = leave == replay_.count()}));
      imports = replay_.here()->unknown_imports();
    }
    if (end == LegEnd::kBreakpoint) leave = replay_.count();
    ASSIGN_OR_RETURN(std::optional<ThreadStop> stop, TakeLeg(request, end, imports));
    if (stop.has_value()) return stop;
  }
  return std::nullopt;
}

// What the leg just run stopped for, if conditions hold.
absl::StatusOr<std::optional<ThreadStop>> ForwardSearch::TakeLeg(
    const RunRequest& request, LegEnd end, const std::vector<WatchedImport>& imports) {
  if (end == LegEnd::kBreakpoint) {
    if (std::optional<size_t> index = stops_.MatchingBreakpoint(request)) {
      return ThreadStop{{.kind = StopKind::kBreakpoint, .thread = thread(), .index = *index},
                        replay_.count()};
    }
  }
  std::optional<WatchHit> hit;
  if (end == LegEnd::kWatch) hit = replay_.here()->watch_hit();
  if (!hit.has_value() && !imports.empty()) {
    ASSIGN_OR_RETURN(hit, stops_.ChangedImport(imports));
  }
  if (!hit.has_value()) return std::nullopt;
  const auto accepted = stops_.AcceptWatch(request, *hit, /*before=*/false);
  if (absl::IsCancelled(accepted.status())) {
    return ThreadStop{{.kind = StopKind::kInterrupted, .thread = thread()}, hit->count};
  }
  RETURN_IF_ERROR(accepted.status());
  if (!accepted->has_value()) return std::nullopt;
  return ThreadStop{stops_.WatchStop(request, **accepted), replay_.count()};
}

// Keeps the ends of watched pages, so that what the next segment imports can be compared.
void ForwardSearch::RememberWatched() {
  std::array<uint8_t, kPageBytes> bytes;
  for (const WatchedImport& watched : WatchedBytes(*replay_.here(), stops_.plain().watchpoints)) {
    if (replay_.here()->ReadHeld(watched.page, absl::MakeSpan(bytes))) {
      memory_->Remember(thread(), replay_.segment_number(), watched.page, bytes);
    }
  }
}

// Goes to the beginning of the next segment that has something to stop for, or in which `limit`
// lies, by searching those between several at once; after an interrupt, as far as was searched.
// `imports`: watched pages it begins with that may have changed since.
absl::Status ForwardSearch::EnterNextInteresting(const RunRequest& request, uint64_t limit,
                                                 std::vector<WatchedImport>* imports) {
  const uint64_t next = replay_.segment_number() + 1;
  uint64_t searched = next;  // the first segment that was not, or that has something
  // Watched bytes as the segments passed had them at their ends.
  std::vector<WatchedImport> known = WatchedBytes(*replay_.here(), stops_.plain().watchpoints);
  auto take = [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(std::optional<WatchHit> change,
                     stops_.ChangedImport(Changed(known, hits.trace.unknown)));
    if (hits.trace.any() || change.has_value()) return true;
    // The order matters: of a page that came in, the end is what counts.
    for (const WatchedImport& import : hits.trace.unknown) Update(import, &known);
    for (const WatchedImport& ending : hits.endings) Update(ending, &known);
    searched = hits.number + 1;
    return false;
  };
  const uint64_t last = replay_.state().SegmentAt(limit);
  if (last > next) {
    const SegmentSearch::Request search = {.thread = thread(),
                                           .from = next,
                                           .to = last - 1,
                                           .breakpoints = &stops_.plain().breakpoints,
                                           .watchpoints = &stops_.plain().watchpoints,
                                           .interrupt = request.interrupt};
    const absl::Status status = search_->Run(search, take);
    if (!status.ok() && !absl::IsCancelled(status)) return status;
  }
  RETURN_IF_ERROR(replay_.EnterSegment(searched));
  *imports = Changed(known, WatchedAtStart(*trace_, *replay_.here(), stops_.plain().watchpoints));
  return absl::OkStatus();
}

}  // namespace hindsight
