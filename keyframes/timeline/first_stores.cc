#include "keyframes/timeline/first_stores.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/status_macros.h"

namespace hindsight {
namespace {

using Line = std::array<uint8_t, kLineBytes>;

// More are not worth the time: a loop may make millions.
constexpr int kMostStores = 2000;

bool Raised(const std::atomic<bool>* interrupt) {
  return interrupt != nullptr && interrupt->load(std::memory_order_relaxed);
}

// The last state in (from, to) in which a record brings any of the line.
std::optional<uint64_t> LastBrought(const std::vector<Record>& records, uint64_t address,
                                    uint64_t from, uint64_t to) {
  auto record = std::partition_point(records.begin(), records.end(),
                                     [&](const Record& entry) { return entry.count < to; });
  while (record != records.begin() && std::prev(record)->count > from) {
    --record;
    bool brings = false;
    if (const auto* import = std::get_if<PageImport>(&record->body)) {
      const uint64_t line = (address - PageOf(address)) / kLineBytes;
      brings = import->address == PageOf(address) &&
               (import->first || import->module >= 0 || (import->line_mask >> line & 1) != 0);
    } else if (const auto* line = std::get_if<LineImport>(&record->body)) {
      brings = line->address == address;
    }
    if (brings) return record->count;
  }
  return std::nullopt;
}

// Lines that are watched, and which of their bytes are not yet what they were seen to be.
class Search {
 public:
  Search(SegmentReplay* replay, absl::Span<StoredLine> lines) : replay_(replay), lines_(lines) {}

  // Finds where each line begins to count: where others' stores to it were brought last.
  void Begin(uint64_t from, uint64_t to, bool goes_on) {
    for (StoredLine& line : lines_) {
      const uint64_t brought =
          LastBrought(replay_->segment().records(), line.address, from, to).value_or(0);
      begins_.push_back(brought != 0 || goes_on ? brought : from);
    }
  }
  // The first state after `count` in which one begins.
  uint64_t NextAfter(uint64_t count) const {
    uint64_t next = ~uint64_t{0};
    for (const uint64_t begins : begins_) {
      if (begins > count) next = std::min(next, begins);
    }
    return next;
  }
  // Those that begin in the present state.
  void Open() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      StoredLine& line = lines_[i];
      Line bytes;
      if (begins_[i] != replay_->count()) continue;
      line.since = replay_->count();
      line.open.reset();
      if (!replay_->ReadHeld(line.address, absl::MakeSpan(bytes))) continue;
      for (size_t byte = 0; byte < bytes.size(); ++byte) {
        line.stored[byte] = 0;
        line.open[byte] = bytes[byte] != line.bytes[byte];
      }
    }
  }
  std::vector<Watchpoint> Watchpoints() const {
    std::vector<Watchpoint> watched;
    for (const StoredLine& line : lines_) {
      watched.push_back(
          {.address = line.address, .length = kLineBytes, .on_write = false, .on_store = true});
    }
    return watched;
  }
  void Close() {
    for (StoredLine& line : lines_) line.open.reset();
  }
  bool any() const {
    return std::any_of(lines_.begin(), lines_.end(),
                       [](const StoredLine& line) { return line.open.any(); });
  }
  void Note(const Watchpoints::Hit& store) {
    for (StoredLine& line : lines_) {
      if (store.address < line.address || store.address >= line.address + kLineBytes) continue;
      for (uint64_t at = store.address; at < store.address + store.size; ++at) {
        const uint64_t byte = at - line.address;
        uint8_t value = 0;
        if (byte >= kLineBytes || !line.open[byte]) continue;
        if (!replay_->ReadHeld(at, absl::MakeSpan(&value, 1)) || value != line.bytes[byte])
          continue;
        line.stored[byte] = replay_->count();
        line.open.reset(byte);
      }
    }
  }

 private:
  SegmentReplay* const replay_;
  const absl::Span<StoredLine> lines_;
  std::vector<uint64_t> begins_;  // of each line the state; 0: it goes on
};

}  // namespace

absl::Status FindFirstStores(ThreadReplay* replay, uint64_t from, bool goes_on,
                             absl::Span<StoredLine> lines, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin = replay->Hold();
  SegmentReplay* const here = replay->here();
  const uint64_t to = here->count();
  if (from < here->segment().info().first_count || from >= to) return absl::OkStatus();
  here->SetStops({}, {});
  RETURN_IF_ERROR(here->RewindTo(from));
  RETURN_IF_ERROR(here->AdvanceTo(from, interrupt));
  Search search(here, lines);
  search.Begin(from, to, goes_on);
  search.Open();
  here->SetStops({}, search.Watchpoints());
  uint64_t next = search.NextAfter(from);
  int stores = 0;
  while (here->count() < to && stores < kMostStores) {
    if (next == ~uint64_t{0} && !search.any()) break;
    if (Raised(interrupt)) return absl::CancelledError("interrupted");
    const uint64_t limit = std::min({to, next, here->count() + kPollStates});
    ASSIGN_OR_RETURN(const LegEnd end, here->RunLeg({.limit = limit}));
    if (end == LegEnd::kWatch) {
      ++stores;
      for (const Watchpoints::Hit& store : here->watched_stores()) search.Note(store);
    }
    if (here->count() == next) {
      search.Open();
      next = search.NextAfter(next);
    }
  }
  // What the others make of a line is not known.
  if (stores == kMostStores) search.Close();
  return absl::OkStatus();
}

}  // namespace hindsight
