#include "keyframes/timeline/last_known.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <variant>

#include "base/status_macros.h"

namespace hindsight {
namespace {

// Bytes of a page that are brought by one record.
struct Brought {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Calls `add` with the ranges of `page` that `record` gives the thread. `whole`: what it says is
// all of the page.
template <typename Add>
void ForEachBrought(const Record& record, uint64_t page, bool whole, const Add& add) {
  if (const auto* import = std::get_if<PageImport>(&record.body)) {
    if (import->address != page) return;
    if (whole || import->first || import->module >= 0) return add({0, kPageBytes});
    for (uint64_t line = 0; line < kPageBytes / kLineBytes; ++line) {
      if ((import->line_mask >> line & 1) != 0) add({line * kLineBytes, kLineBytes});
    }
  } else if (const auto* line = std::get_if<LineImport>(&record.body)) {
    if (PageOf(line->address) == page) add({line->address - page, kLineBytes});
  } else if (const auto* read = std::get_if<UncachedRead>(&record.body)) {
    const uint64_t first = std::max(read->address, page);
    const uint64_t last = std::min(read->address + (read->size - 1), page + (kPageBytes - 1));
    if (read->size != 0 && first <= last) add({first - page, last - first + 1});
  }
}

// Runs of bytes that are looked for, a few others between them included.
class OpenBytes {
 public:
  OpenBytes(uint64_t page, const PageBits& bytes) : page_(page), bytes_(bytes) {}

  bool any() const { return bytes_.any(); }
  // Forgets those that are known from states at or after `high`, or whose floor lies there, and
  // returns the least state that the others may have changed in.
  uint64_t Narrow(const PageKnowledge& known, const std::vector<uint64_t>& floors, uint64_t high) {
    uint64_t floor = high;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (!bytes_[i]) continue;
      const uint64_t low = std::max(known[i].count, floors[i]);
      if (low >= high) {
        bytes_.reset(i);
      } else {
        floor = std::min(floor, low);
      }
    }
    return floor;
  }
  std::vector<Watchpoint> Watchpoints() const {
    constexpr size_t kGap = 8;
    std::vector<Watchpoint> ranges;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (!bytes_[i]) continue;
      if (ranges.empty() || i > ranges.back().address + ranges.back().length - page_ + kGap) {
        ranges.push_back({.address = page_ + i, .length = 0, .on_write = false, .on_store = true});
      }
      ranges.back().length = page_ + i + 1 - ranges.back().address;
    }
    return ranges;
  }
  // The transition to the state `count` has made these stores. Later ones may follow.
  void Note(absl::Span<const Watchpoints::Hit> stores, uint64_t count, PageKnowledge* known) {
    for (const Watchpoints::Hit& store : stores) {
      for (size_t i = store.address - page_; i < store.address - page_ + store.size; ++i) {
        if (!bytes_[i]) continue;
        if (count > (*known)[i].count) (*known)[i] = {count, false, false};
        noted_.set(i);
      }
    }
  }
  // What was noted is the last of each of these bytes.
  void ForgetNoted() {
    bytes_ &= ~noted_;
    noted_.reset();
  }
  // There are later ones.
  void DropNoted() { noted_.reset(); }

 private:
  const uint64_t page_;
  PageBits bytes_;
  PageBits noted_;
};

bool Raised(const std::atomic<bool>* interrupt) {
  return interrupt != nullptr && interrupt->load(std::memory_order_relaxed);
}

// Goes on to the state `high`, and notes all writes to open bytes on the way: the replay is to stop
// for these. False, somewhere on the way, if there are too many.
absl::StatusOr<bool> NoteWrites(ThreadReplay* replay, uint64_t high, OpenBytes* open,
                                PageKnowledge* known, const std::atomic<bool>* interrupt) {
  // Stopping for each takes longer than looking for the last ones, one by one.
  constexpr int kMostWrites = 500;
  for (int writes = 0; replay->count() < high;) {
    if (Raised(interrupt)) return absl::CancelledError("interrupted");
    const uint64_t limit = std::min(high, replay->count() + kPollStates);
    ASSIGN_OR_RETURN(const LegEnd end, replay->here()->RunLeg({.limit = limit}));
    if (end != LegEnd::kWatch) continue;
    if (++writes > kMostWrites) return false;
    open->Note(replay->here()->watched_stores(), replay->count(), known);
  }
  return true;
}

// Goes over the transition out of the state `count`, and notes what it writes.
absl::Status NoteWritesFrom(ThreadReplay* replay, uint64_t count, OpenBytes* open,
                            PageKnowledge* known, const std::atomic<bool>* interrupt) {
  replay->here()->SetStops({}, open->Watchpoints());
  RETURN_IF_ERROR(replay->here()->RewindTo(count));
  RETURN_IF_ERROR(replay->here()->AdvanceTo(count, interrupt));
  RETURN_IF_ERROR(replay->here()->Step());
  if (replay->here()->watch_hit().has_value()) {
    open->Note(replay->here()->watched_stores(), count + 1, known);
  }
  return absl::OkStatus();
}

// Finds the last writes to open bytes in states [low, high): all of them, or, where there are too
// many, one, which is returned.
absl::StatusOr<std::optional<WatchHit>> SearchWindow(ThreadReplay* replay, uint64_t low,
                                                     uint64_t high, OpenBytes* open,
                                                     PageKnowledge* known,
                                                     const std::atomic<bool>* interrupt) {
  const PlainStops stops = {.breakpoints = {}, .watchpoints = open->Watchpoints()};
  replay->here()->SetStops({}, {});
  RETURN_IF_ERROR(replay->here()->RewindTo(low));
  RETURN_IF_ERROR(replay->here()->AdvanceTo(low, interrupt));
  replay->here()->SetStops({}, stops.watchpoints);
  ASSIGN_OR_RETURN(const bool all, NoteWrites(replay, high, open, known, interrupt));
  if (all) {
    open->ForgetNoted();
    return std::nullopt;
  }
  open->DropNoted();
  HitTrace trace;
  const uint64_t from = replay->count();
  RETURN_IF_ERROR(replay->here()->AdvanceNoting(high, &trace, interrupt));
  // The one that was too many is the last one, if there is none after it.
  if (trace.cpu.watch_hits == 0) return WatchHit{.count = from - 1};
  return replay->ResolveWatch(stops, trace, from, high, interrupt);
}

// Back from `high` in windows that widen. Whenever the last write to one of the bytes is found, the
// others' are looked for before it, near it first: pages are mostly written in one go.
// `floors`: of each byte, the state before which it is not looked for.
absl::Status FindLastWrites(ThreadReplay* replay, uint64_t page, const PageBits& bytes,
                            const std::vector<uint64_t>& floors, uint64_t high,
                            PageKnowledge* known, const std::atomic<bool>* interrupt) {
  OpenBytes open(page, bytes);
  for (size_t width = 1;;) {
    const uint64_t floor = open.Narrow(*known, floors, high);
    if (!open.any()) return absl::OkStatus();
    const Checkpoints& checkpoints = replay->here()->checkpoints();
    const uint64_t low = std::max(floor, checkpoints.NthBefore(high, width).value_or(floor));
    std::optional<WatchHit> hit;
    if (replay->count() < high || checkpoints.MayHaveChanged(page, low, high)) {
      ASSIGN_OR_RETURN(hit, SearchWindow(replay, low, high, &open, known, interrupt));
    }
    if (!hit.has_value()) {
      high = low;
      width *= 2;
      continue;
    }
    RETURN_IF_ERROR(NoteWritesFrom(replay, hit->count, &open, known, interrupt));
    open.ForgetNoted();
    high = hit->count;
    width = 1;
  }
}

// What the records up to the present state say of each byte of the page.
PageKnowledge KnownFromRecords(const ThreadReplay& replay, uint64_t page) {
  const uint64_t present = replay.count();
  PageKnowledge known(kPageBytes, {replay.here()->segment().info().first_count, true, false});
  bool left = false;
  for (const Record& record : replay.here()->segment().records()) {
    if (record.count > present) break;
    if (const auto* gone = std::get_if<PageLeft>(&record.body)) left |= gone->address == page;
    // A page that was left is seen anew as a whole, though only what differs from then is logged.
    const auto* import = std::get_if<PageImport>(&record.body);
    const bool again = left && import != nullptr && import->address == page;
    if (again) left = false;
    // What no thread knew came with the transition, and is seen before the turn, too.
    const uint64_t old = import != nullptr ? import->known_mask : ~uint64_t{0};
    const uint8_t turn = import != nullptr ? import->turn : PageImport::kFirstTurn;
    const bool waits = record.count == present && replay.here()->before_turn();
    ForEachBrought(record, page, again, [&](const Brought& part) {
      for (uint64_t i = part.offset; i < part.offset + part.size; ++i) {
        const bool was_known = (old >> (i / kLineBytes) & 1) != 0;
        if (!waits || !was_known) known[i] = {record.count, true, !was_known, turn};
      }
    });
  }
  return known;
}

// Looks for the last writes to bytes of a page up to a state, except for what was found before.
class WriteSearch {
 public:
  WriteSearch(ThreadReplay* replay, uint64_t page, uint64_t since,
              const std::vector<LastWrites::Byte>& found, PageKnowledge* known)
      : replay_(replay), page_(page), present_(replay->count()), found_(found), known_(*known) {
    for (const ByteKnowledge& byte : known_) floors_.push_back(std::max(byte.count, since));
  }

  absl::Status Run(const PageBits& bytes, const std::atomic<bool>* interrupt) {
    PageBits open = bytes;
    std::vector<uint64_t> floors = floors_;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (!bytes[i]) continue;
      if (IsFoundLaterOn(i)) {
        Take(i);
        open.reset(i);
      } else if (IsContinued(i)) {
        floors[i] = found_[i].at;
      }
    }
    RETURN_IF_ERROR(FindLastWrites(replay_, page_, open, floors, present_, &known_, interrupt));
    // None since what was found before, which counts.
    PageBits left;
    uint64_t high = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (!open[i] || !known_[i].imported || !IsContinued(i)) continue;
      Take(i);
      if (found_[i].write != 0 || found_[i].low <= floors_[i]) continue;
      left.set(i);
      high = std::max(high, found_[i].low);
    }
    return FindLastWrites(replay_, page_, left, floors_, high, &known_, interrupt);
  }
  // What is found of byte `i` now.
  LastWrites::Byte Result(size_t i) const {
    if (IsFoundLaterOn(i)) return found_[i];
    if (!known_[i].imported) return {present_, known_[i].count, 0};
    const bool searched = IsContinued(i) && found_[i].write == 0;
    return {present_, 0, searched ? std::min(found_[i].low, floors_[i]) : floors_[i]};
  }

 private:
  // All states up to the present one have been searched, but for those since the search before.
  bool IsContinued(size_t i) const {
    return found_[i].at <= present_ && found_[i].at >= floors_[i] && found_[i].at != 0;
  }
  // What was found in a later state holds in the present one, too.
  bool IsFoundLaterOn(size_t i) const {
    const LastWrites::Byte& byte = found_[i];
    if (byte.at <= present_) return false;
    return byte.write != 0 ? byte.write <= present_ : byte.low <= floors_[i];
  }
  void Take(size_t i) {
    if (found_[i].write > known_[i].count) known_[i] = {found_[i].write, false, false};
  }

  ThreadReplay* const replay_;
  const uint64_t page_;
  const uint64_t present_;
  const std::vector<LastWrites::Byte>& found_;
  PageKnowledge& known_;
  std::vector<uint64_t> floors_;
};

}  // namespace

std::vector<LastWrites::Byte>& LastWrites::Of(int32_t thread, uint64_t segment, uint64_t page) {
  constexpr size_t kMostPages = 256;  // some 100 KB each
  if (pages_.size() >= kMostPages) pages_.clear();
  std::vector<Byte>& bytes = pages_[{thread, segment, page}];
  bytes.resize(kPageBytes);
  return bytes;
}

absl::StatusOr<PageKnowledge> LastKnown(ThreadReplay* replay, uint64_t page, const PageBits& bytes,
                                        uint64_t since, LastWrites* writes,
                                        const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin = replay->Hold();
  std::vector<LastWrites::Byte>& found =
      writes->Of(replay->state().thread(), replay->segment_number(), page);
  PageKnowledge known = KnownFromRecords(*replay, page);
  WriteSearch search(replay, page, since, found, &known);
  RETURN_IF_ERROR(search.Run(bytes, interrupt));
  for (size_t i = 0; i < found.size(); ++i) {
    if (bytes[i]) found[i] = search.Result(i);
  }
  return known;
}

}  // namespace hindsight
