#include "keyframes/timeline/store_log.h"

#include <algorithm>
#include <memory>
#include <variant>

#include "base/status_macros.h"
#include "keyframes/replay/watched_memory.h"

namespace hindsight {
namespace {

// Moments that are looked at in one go: some 20 ms of replay.
constexpr uint64_t kHorizon = 2'000'000;
// Replays kept: threads that store to the same memory are few.
constexpr size_t kMaxReplays = 4;

// The first state at or after `low` in one of the ranges, or `high`.
uint64_t FirstIn(const std::vector<CountRange>& ranges, uint64_t low, uint64_t high) {
  const auto first = std::partition_point(ranges.begin(), ranges.end(),
                                          [&](const CountRange& range) { return range.to <= low; });
  return first == ranges.end() ? high : std::min(high, std::max(low, first->from));
}

// The page that a record brings to the thread, and which lines of it no other thread had.
struct News {
  uint64_t page = 0;
  uint64_t lines = 0;
};
News NewsOf(const Record& record) {
  if (const auto* import = std::get_if<PageImport>(&record.body)) {
    return {import->address, ~import->known_mask};
  }
  if (const auto* line = std::get_if<LineImport>(&record.body)) {
    const uint64_t page = PageOf(line->address);
    return {page, uint64_t{1} << (line->address - page) / kLineBytes};
  }
  return {};
}

bool HasAny(const News& news, const WatchedPart& part) {
  if (part.size == 0) return false;
  for (uint64_t line = part.offset / kLineBytes; line <= (part.offset + part.size - 1) / kLineBytes;
       ++line) {
    if ((news.lines >> line & 1) != 0) return true;
  }
  return false;
}

}  // namespace

StoreLog::StoreLog(const TraceReader* trace, const ProcessState* process, MemoryView* memory,
                   uint64_t checkpoint_bytes)
    : trace_(trace),
      process_(process),
      memory_(memory),
      pool_(trace, kMaxReplays, checkpoint_bytes) {}

void StoreLog::Watch(const std::vector<Watchpoint>& watchpoints) {
  std::vector<Watchpoint> watched;
  for (const Watchpoint& watch : watchpoints) {
    if (!watch.on_write || watch.length == 0) continue;
    watched.push_back(
        {.address = watch.address, .length = watch.length, .on_write = false, .on_store = true});
  }
  if (watched == watched_) return;
  watched_ = std::move(watched);
  logs_.clear();
}

absl::StatusOr<uint64_t> StoreLog::QuietUntil(int32_t thread, uint64_t moment,
                                              const std::atomic<bool>* interrupt) {
  const Schedule& schedule = process_->schedule();
  uint64_t bound = std::min(schedule.end_moment(), moment + kHorizon);
  // Those that are in the segments that the threads are in; a thread's next one is asked about
  // then.
  for (const int32_t other : process_->threads().all()) {
    const ThreadState& state = process_->thread(other);
    const uint64_t count = schedule.CountAt(other, moment);
    if (other == thread || count >= state.end_count()) continue;
    const SegmentKey key = {other, state.SegmentAt(count)};
    bound = std::min(bound, schedule.MomentTo(other, EndOf(key)));
    const uint64_t high = schedule.CountAt(other, bound);
    if (high <= count) continue;
    ASSIGN_OR_RETURN(const bool touches, Touches(key));
    if (!touches) continue;
    ASSIGN_OR_RETURN(const uint64_t first, FirstStore(key, count, high, interrupt));
    if (first < high) bound = std::min(bound, schedule.MomentFrom(other, first));
  }
  return std::max(bound, moment);
}

uint64_t StoreLog::EndOf(const SegmentKey& key) const {
  const std::vector<SegmentInfo>& segments = trace_->segments(key.first);
  const auto next =
      std::partition_point(segments.begin(), segments.end(),
                           [&](const SegmentInfo& info) { return info.number <= key.second; });
  if (next != segments.end()) return next->first_count;
  return process_->thread(key.first).end_count();
}

absl::StatusOr<bool> StoreLog::Touches(const SegmentKey& key) {
  for (const Watchpoint& watch : watched_) {
    ASSIGN_OR_RETURN(const bool touches,
                     memory_->Touches(key.first, key.second, watch.address, watch.length));
    if (touches) return true;
  }
  return false;
}

// The first state in [low, high) out of which the thread stores there; `high` if there is none.
absl::StatusOr<uint64_t> StoreLog::FirstStore(const SegmentKey& key, uint64_t low, uint64_t high,
                                              const std::atomic<bool>* interrupt) {
  Log& log = logs_[key];
  if (log.searched_to < high) RETURN_IF_ERROR(Extend(key, high, &log, interrupt));
  return FirstIn(log.imports, low, FirstIn(log.stores, low, high));
}

absl::Status StoreLog::Extend(const SegmentKey& key, uint64_t high, Log* log,
                              const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(SegmentReplay* const replay, pool_.Get(key.first, key.second));
  pool_.Favour(replay);
  const Segment& segment = replay->segment();
  if (log->searched_to == 0) {
    log->imports = ImportsOf(segment);
    log->searched_to = segment.info().first_count;
  }
  // Going on again costs something, too.
  high = std::min(segment.end_count(), std::max(high, log->searched_to + kHorizon / 2));
  if (high <= log->searched_to) return absl::OkStatus();
  replay->SetStops({}, {});
  RETURN_IF_ERROR(replay->MoveTo(log->searched_to, /*dense=*/false, interrupt));
  replay->SetStops({}, watched_);
  HitTrace trace;
  trace.cpu.watch_blocks = &log->stores;
  RETURN_IF_ERROR(replay->AdvanceNoting(high, &trace, interrupt));
  log->searched_to = high;
  return absl::OkStatus();
}

// What came in with the transition to a state, or where the thread's next turn begins there.
std::vector<CountRange> StoreLog::ImportsOf(const Segment& segment) const {
  std::vector<CountRange> imports;
  for (const Record& record : segment.records()) {
    if (record.count == segment.info().first_count) continue;
    const News news = NewsOf(record);
    if (std::any_of(watched_.begin(), watched_.end(), [&](const Watchpoint& watch) {
          return HasAny(news, WatchedIn(news.page, watch));
        })) {
      imports.push_back({record.count - 1, record.count + 1});
    }
  }
  return imports;
}

}  // namespace hindsight
