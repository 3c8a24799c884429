#include "keyframes/timeline/last_known.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "base/status_macros.h"

namespace hindsight {
namespace {

// Whether `record` gives the thread bytes of [address, address + size), which lies in one page.
bool Brings(const Record& record, uint64_t address, uint64_t size) {
  const uint64_t page = PageOf(address);
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

// Back from `high` in windows that widen. Whenever the last write to one of the lines is found, the
// others' are looked for before it, near it first: pages are mostly written in one go.
absl::Status FindLastWrites(ThreadReplay* replay, uint64_t page, uint64_t lines, uint64_t since,
                            uint64_t high, PageKnowledge* known,
                            const std::atomic<bool>* interrupt) {
  for (size_t width = 1;;) {
    uint64_t floor = high;
    PlainStops stops;
    for (size_t line = 0; line < known->size(); ++line) {
      const uint64_t low = std::max((*known)[line].count, since);
      if ((lines >> line & 1) == 0 || low >= high) continue;
      floor = std::min(floor, low);
      const uint64_t address = page + line * kLineBytes;
      if (!stops.watchpoints.empty() &&
          stops.watchpoints.back().address + stops.watchpoints.back().length == address) {
        stops.watchpoints.back().length += kLineBytes;
      } else {
        stops.watchpoints.push_back({.address = address, .length = kLineBytes});
      }
    }
    if (stops.watchpoints.empty()) return absl::OkStatus();
    replay->here()->SetStops({}, stops.watchpoints);
    const uint64_t low =
        std::max(floor, replay->here()->checkpoints().NthBefore(high, width).value_or(floor));
    HitTrace trace;
    RETURN_IF_ERROR(replay->here()->RewindTo(low));
    RETURN_IF_ERROR(replay->here()->AdvanceTo(low, interrupt));
    RETURN_IF_ERROR(replay->here()->AdvanceNoting(high, &trace, interrupt));
    std::optional<WatchHit> hit;
    if (trace.cpu.watch_hits > 0) {
      ASSIGN_OR_RETURN(hit, replay->ResolveWatch(stops, trace, low, high, interrupt));
    }
    if (!hit.has_value()) {
      high = low;
      width *= 2;
      continue;
    }
    // A store may reach from one line into the next, so the same state is looked at again.
    const Watchpoint& range = stops.watchpoints[hit->index];
    const uint64_t address =
        std::clamp(hit->address, range.address, range.address + range.length - 1);
    const uint64_t line = (address - page) / kLineBytes;
    // The window reaches back as far as some line needs; of this one more may have come since.
    if (hit->count + 1 > (*known)[line].count) (*known)[line] = {hit->count + 1, false};
    lines &= ~(uint64_t{1} << line);
    high = hit->count + 1;
    width = 1;
  }
}

}  // namespace

absl::StatusOr<PageKnowledge> LastKnown(ThreadReplay* replay, uint64_t page, uint64_t lines,
                                        uint64_t since, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin = replay->Hold();
  const uint64_t before = replay->count();
  PageKnowledge known;
  known.fill({replay->here()->segment().info().first_count, true});
  bool left = false;
  for (const Record& record : replay->here()->segment().records()) {
    if (record.count > before) break;
    if (const auto* gone = std::get_if<PageLeft>(&record.body)) left |= gone->address == page;
    // A page that was left is seen anew as a whole, though only what differs from then is logged.
    const auto* seen = std::get_if<PageImport>(&record.body);
    const bool again = left && seen != nullptr && seen->address == page;
    if (!again && !Brings(record, page, kPageBytes)) continue;
    if (again) left = false;
    // What no thread knew came with the transition, and is seen before the turn, too.
    const auto* import = std::get_if<PageImport>(&record.body);
    const uint64_t old = import != nullptr ? import->known_mask : ~uint64_t{0};
    const bool waits = record.count == before && replay->here()->before_turn();
    for (size_t line = 0; line < known.size(); ++line) {
      if (!again && !Brings(record, page + line * kLineBytes, kLineBytes)) continue;
      const bool was_known = (old >> line & 1) != 0;
      if (!waits || !was_known) known[line] = {record.count, was_known};
    }
  }
  RETURN_IF_ERROR(FindLastWrites(replay, page, lines, since, before, &known, interrupt));
  return known;
}

}  // namespace hindsight
