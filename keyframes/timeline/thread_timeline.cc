#include "keyframes/timeline/thread_timeline.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {

ThreadTimeline::ThreadTimeline(const ThreadState* state, const Context& context)
    : trace_(context.trace), state_(*state), context_(context) {}

// Takes the replay of segment `number`, wherever in it that stands.
absl::Status ThreadTimeline::Enter(uint64_t number) {
  if (here() != nullptr && here()->segment().info().number == number) return absl::OkStatus();
  ASSIGN_OR_RETURN(SegmentReplay * replay, context_.pool->Get(state_.thread(), number));
  context_.pool->Give(replay, &holder_);
  context_.pool->Favour(replay);
  return absl::OkStatus();
}

absl::Status ThreadTimeline::GoTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin(&holder_);
  RETURN_IF_ERROR(Enter(state_.SegmentAt(target)));
  // States between a segment cut short and the next one were never recorded.
  if (target > here()->segment().end_count()) {
    return absl::OutOfRangeError(absl::StrCat("the recording has a gap at count ", target,
                                              " of thread ", state_.thread(), ", after ",
                                              here()->segment().end_count()));
  }
  if (target > count()) here()->LeaveCheckpoint();
  return here()->MoveTo(target, dense, interrupt);
}

absl::Status ThreadTimeline::StandAt(uint64_t target, const std::atomic<bool>* interrupt) {
  if (here() != nullptr && count() == target && here()->sound()) return absl::OkStatus();
  return GoTo(target, /*dense=*/false, interrupt);
}

absl::Status ThreadTimeline::GoBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin(&holder_);
  RETURN_IF_ERROR(Enter(state_.SegmentAt(target)));
  if (target > here()->segment().end_count()) return GoTo(target, /*dense=*/false, interrupt);
  return here()->MoveToBeforeTurn(target, interrupt);
}

absl::Status ThreadTimeline::GoToEndOf(uint64_t number, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin(&holder_);
  RETURN_IF_ERROR(Enter(number));
  return here()->MoveTo(here()->segment().end_count(), /*dense=*/false, interrupt);
}

// Goes to the first state of segment `number`.
absl::Status ThreadTimeline::EnterSegment(uint64_t number) {
  RETURN_IF_ERROR(Enter(number));
  return here()->MoveTo(here()->segment().info().first_count, /*dense=*/false);
}

// Where the replay is at its end and another segment begins in that state or behind a gap.
absl::Status ThreadTimeline::EnterNextSegment() {
  return EnterSegment(here()->segment().info().number + 1);
}

absl::StatusOr<bool> ThreadTimeline::StepForward(uint64_t from, std::optional<WatchHit>* hit,
                                                 const std::atomic<bool>* interrupt) {
  if (from >= state_.end_count()) return false;
  const ReplayPool::Pin pin(&holder_);
  RETURN_IF_ERROR(GoTo(from, /*dense=*/false, interrupt));
  if (here()->at_end()) {  // before a gap
    RETURN_IF_ERROR(EnterNextSegment());
    return true;
  }
  here()->SetStops(breakpoints_, watchpoints_);
  RETURN_IF_ERROR(here()->Step());
  if (here()->watch_hit().has_value()) *hit = here()->watch_hit();
  if (here()->at_end() && !InLastSegmentOf(count())) RETURN_IF_ERROR(EnterNextSegment());
  return true;
}

absl::StatusOr<bool> ThreadTimeline::StepBackward(uint64_t from, std::optional<WatchHit>* hit,
                                                  const std::atomic<bool>* interrupt) {
  if (from <= state_.begin_count()) return false;
  const ReplayPool::Pin pin(&holder_);
  uint64_t target = from - 1;
  const uint64_t number = state_.SegmentAt(target);
  if (number != state_.SegmentAt(from)) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Segment> previous,
                     trace_->LoadSegment(state_.thread(), number));
    target = std::min(target, previous->end_count());
  }
  RETURN_IF_ERROR(GoTo(target, /*dense=*/true, interrupt));
  if (watchpoints_.empty() || here()->at_end()) return true;
  // Whether the transition touched a watched location shows when it is made again.
  here()->TakeCheckpoint();
  here()->SetStops(breakpoints_, watchpoints_);
  RETURN_IF_ERROR(here()->Step());
  if (here()->watch_hit().has_value()) *hit = here()->watch_hit();
  RETURN_IF_ERROR(here()->MoveTo(target, /*dense=*/false));
  return true;
}

void ThreadTimeline::SetStops(const RunRequest& request) {
  breakpoints_.clear();
  for (const BreakpointSpec& stop : request.breakpoints) breakpoints_.insert(stop.address);
  watchpoints_.clear();
  for (const WatchpointSpec& stop : request.watchpoints) {
    watchpoints_.push_back({stop.address, stop.length, stop.on_write(), stop.on_read()});
  }
}

std::optional<size_t> ThreadTimeline::MatchingBreakpoint(const RunRequest& request) {
  const uint64_t pc = here()->pc();
  for (size_t i = 0; i < request.breakpoints.size(); ++i) {
    const BreakpointSpec& stop = request.breakpoints[i];
    if (stop.address != pc || (stop.thread != 0 && stop.thread != state_.thread())) continue;
    if (!stop.condition ||
        context_.host->Holds(state_.thread(), count(), /*before=*/true, stop.condition)) {
      return i;
    }
  }
  return std::nullopt;
}

bool ThreadTimeline::WatchHolds(const RunRequest& request, size_t index, bool before) const {
  const WatchpointSpec& stop = request.watchpoints[index];
  if (stop.thread != 0 && stop.thread != state_.thread()) return false;
  return !stop.condition || context_.host->Holds(state_.thread(), count(), before, stop.condition);
}

RunStop ThreadTimeline::WatchStop(const RunRequest& request, const WatchHit& hit) const {
  const WatchpointSpec& watched = request.watchpoints[hit.index];
  RunStop stop;
  stop.kind = StopKind::kWatchpoint;
  stop.thread = state_.thread();
  stop.index = hit.index;
  // An access may begin before the watched range.
  stop.address = std::max(hit.address, watched.address);
  stop.watch = watched.kind;
  return stop;
}

absl::StatusOr<RunStop> ThreadTimeline::DescribeHit(const RunRequest& request, const Hit& hit) {
  if (hit.is_watch) return WatchStop(request, hit.watch);
  RunStop stop = {.kind = StopKind::kBreakpoint, .thread = state_.thread()};
  const uint64_t pc = here()->pc();
  auto it = std::find_if(request.breakpoints.begin(), request.breakpoints.end(),
                         [pc](const BreakpointSpec& candidate) { return candidate.address == pc; });
  stop.index = hit.breakpoint.value_or(static_cast<size_t>(it - request.breakpoints.begin()));
  return stop;
}

// Keeps the ends of watched pages, so that what the next segment imports can be compared.
void ThreadTimeline::RememberWatched() {
  std::array<uint8_t, kPageBytes> bytes;
  for (const WatchedImport& watched : WatchedBytes(*here(), watchpoints_)) {
    if (here()->ReadHeld(watched.page, absl::MakeSpan(bytes))) {
      context_.memory->Remember(state_.thread(), here()->segment().info().number, watched.page,
                                bytes);
    }
  }
}

std::vector<WatchedImport> ThreadTimeline::WatchedAtStartHere() const {
  return WatchedAtStart(*trace_, *here(), watchpoints_);
}

namespace {

// Not all of the lines that `part` of the page lies in were known to other threads.
bool MayBeNews(const WatchedImport& import, const WatchedPart& part) {
  for (uint64_t line = part.offset / kLineBytes; line <= (part.offset + part.size - 1) / kLineBytes;
       ++line) {
    if ((import.known_mask >> line & 1) == 0) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::optional<WatchHit>> ThreadTimeline::ChangedImport(
    const std::vector<WatchedImport>& imports) {
  std::array<uint8_t, kPageBytes> before;
  for (const WatchedImport& import : imports) {
    if (import.count == state_.begin_count()) continue;
    if (import.keyframe != 0 &&
        !context_.host->TellsKeyframe(state_.thread(), import.count, import.keyframe)) {
      continue;
    }
    const WatchedPart part = WatchedIn(import.page, watchpoints_[import.index]);
    if (!MayBeNews(import, part)) continue;  // where many know the page, asking them takes long
    // Seen from the state before, the segment's own keyframe does not count as known.
    absl::Status status =
        context_.host->ReadBefore(state_.thread(), state_.SegmentAt(import.count), import.count - 1,
                                  import.page, absl::MakeSpan(before));
    if (absl::IsNotFound(status)) {
      unknown_imports_.push_back({import.count, import.page});
      continue;
    }
    RETURN_IF_ERROR(status);
    const auto* known = reinterpret_cast<const char*>(before.data()) + part.offset;
    const std::optional<uint64_t> news =
        FirstNews(import, watchpoints_[import.index], absl::string_view(known, part.size));
    if (!news.has_value()) continue;
    return WatchHit{import.count - 1, import.index, import.page + part.offset + *news};
  }
  return std::nullopt;
}

namespace {

// Whether `record` gives the thread bytes of [address, address + size), which lies in one page.
bool Tells(const Record& record, uint64_t address, uint64_t size) {
  const uint64_t page = address & ~(kPageBytes - 1);
  if (const auto* import = std::get_if<PageImport>(&record.body)) {
    if (import->address != page) return false;
    if (import->first) return true;
    for (uint64_t line = (address - page) / kLineBytes;
         line <= (address - page + size - 1) / kLineBytes; ++line) {
      if ((import->line_mask >> line & 1) != 0) return true;
    }
    return import->module >= 0;
  }
  auto overlaps = [&](uint64_t other, uint64_t other_size) {
    return other < address + size && address < other + other_size;
  };
  if (const auto* line = std::get_if<LineImport>(&record.body)) {
    return overlaps(line->address, kLineBytes);
  }
  const auto* read = std::get_if<UncachedRead>(&record.body);
  return read != nullptr && overlaps(read->address, read->size);
}

}  // namespace

absl::StatusOr<ThreadTimeline::PageKnowledge> ThreadTimeline::LastKnown(
    uint64_t page, uint64_t lines, uint64_t since, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin(&holder_);
  const uint64_t before = count();
  PageKnowledge known;
  known.fill({here()->segment().info().first_count, true});
  bool left = false;
  for (const Record& record : here()->segment().records()) {
    if (record.count > before) break;
    if (const auto* gone = std::get_if<PageLeft>(&record.body)) left |= gone->address == page;
    // A page that was left is seen anew as a whole, though only what differs from then is logged.
    const auto* seen = std::get_if<PageImport>(&record.body);
    const bool again = left && seen != nullptr && seen->address == page;
    if (!again && !Tells(record, page, kPageBytes)) continue;
    if (again) left = false;
    // What nobody knew came with the transition, and is seen where the thread waits, too.
    const auto* import = std::get_if<PageImport>(&record.body);
    const uint64_t old = import != nullptr ? import->known_mask : ~uint64_t{0};
    const bool waits = record.count == before && here()->before_turn();
    for (size_t line = 0; line < known.size(); ++line) {
      if (!again && !Tells(record, page + line * kLineBytes, kLineBytes)) continue;
      const bool was_known = (old >> line & 1) != 0;
      if (!waits || !was_known) known[line] = {record.count, was_known};
    }
  }
  const auto watched = std::exchange(watchpoints_, {});
  const auto breakpoints = std::exchange(breakpoints_, {});
  absl::Status status = FindLastWrites(page, lines, since, before, &known, interrupt);
  watchpoints_ = watched;
  breakpoints_ = breakpoints;
  here()->SetStops(breakpoints_, {});
  RETURN_IF_ERROR(status);
  return known;
}

// Back from `high` in windows that widen. Whenever the last write to one of the lines is found, the
// others' are looked for before it, near it first: pages are mostly written in one go.
absl::Status ThreadTimeline::FindLastWrites(uint64_t page, uint64_t lines, uint64_t since,
                                            uint64_t high, PageKnowledge* known,
                                            const std::atomic<bool>* interrupt) {
  for (size_t width = 1;;) {
    uint64_t floor = high;
    watchpoints_.clear();
    for (size_t line = 0; line < known->size(); ++line) {
      const uint64_t low = std::max((*known)[line].count, since);
      if ((lines >> line & 1) == 0 || low >= high) continue;
      floor = std::min(floor, low);
      const uint64_t address = page + line * kLineBytes;
      if (!watchpoints_.empty() &&
          watchpoints_.back().address + watchpoints_.back().length == address) {
        watchpoints_.back().length += kLineBytes;
      } else {
        watchpoints_.push_back({.address = address, .length = kLineBytes});
      }
    }
    if (watchpoints_.empty()) return absl::OkStatus();
    here()->SetStops(breakpoints_, watchpoints_);
    const uint64_t low =
        std::max(floor, here()->checkpoints().NthBefore(high, width).value_or(floor));
    HitTrace trace;
    RETURN_IF_ERROR(here()->RewindTo(low));
    RETURN_IF_ERROR(here()->AdvanceTo(low, interrupt));
    RETURN_IF_ERROR(here()->AdvanceNoting(high, &trace, interrupt));
    std::optional<WatchHit> hit;
    if (trace.cpu.watch_hits > 0) {
      ASSIGN_OR_RETURN(hit, ResolveWatch(trace, low, high, interrupt));
    }
    if (!hit.has_value()) {
      high = low;
      width *= 2;
      continue;
    }
    // A store may reach from one line into the next, so the same state is looked at again.
    const Watchpoint& range = watchpoints_[hit->index];
    const uint64_t address =
        std::clamp(hit->address, range.address, range.address + range.length - 1);
    const uint64_t line = (address - page) / kLineBytes;
    (*known)[line] = {hit->count + 1, false};
    lines &= ~(uint64_t{1} << line);
    high = hit->count + 1;
    width = 1;
  }
}

}  // namespace hindsight
