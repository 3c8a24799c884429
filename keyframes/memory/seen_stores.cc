#include "keyframes/memory/seen_stores.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <variant>

#include "base/status_macros.h"

namespace hindsight {
namespace {

// Lines of one thread that are looked at, the last ones that it has seen.
constexpr size_t kMostSeen = 32;
// Bytes of which it is looked up whether others may have stored them, of one thread.
constexpr size_t kMostLookedUp = 16;
// Slices whose stores are searched.
constexpr size_t kMostEvidence = 64;

// Adds the lines of the import that other threads had before, `of` among them as far as is known.
void AddLines(const PageImport& import, int32_t of, const auto& add) {
  uint64_t shown = 0, by_others = 0;
  for (const PageImport::Shown& one : import.shown) {
    (one.thread == of ? shown : by_others) |= one.lines;
  }
  const uint64_t wanted = import.known_mask & (shown | ~by_others);
  const uint8_t* bytes = import.lines.data();
  for (uint64_t left = import.line_mask; left != 0; left &= left - 1, bytes += kLineBytes) {
    const uint64_t line = std::countr_zero(left);
    if ((wanted >> line & 1) == 0) continue;
    StoredLine seen = {.address = import.address + line * kLineBytes};
    std::copy_n(bytes, kLineBytes, seen.bytes.begin());
    add((shown >> line & 1) != 0, seen);
  }
}

}  // namespace

// What `by` has imported of what `of` may have stored after the slice `after` began, until that
// moment: the last ones.
absl::Status SeenStores::AddSeenBy(int32_t by, int32_t of, size_t after, uint64_t until,
                                   std::vector<Seen>* seen) {
  const Schedule& schedule = process_.schedule();
  const size_t now = schedule.SliceAt(until), most = seen->size() + kMostSeen;
  for (uint64_t at = until; seen->size() < most;) {
    const auto segment = views_->SegmentAt(by, at);
    if (absl::IsNotFound(segment.status())) return absl::OkStatus();
    RETURN_IF_ERROR(segment.status());
    const std::vector<Record>& records = (*segment)->records();
    const uint64_t present = schedule.CountAt(by, at);
    auto record = std::partition_point(records.begin(), records.end(),
                                       [&](const Record& entry) { return entry.count <= present; });
    while (record != records.begin() && seen->size() < most) {
      --record;
      const auto* import = std::get_if<PageImport>(&record->body);
      if (import == nullptr || import->first || import->known_mask == 0) continue;
      const size_t slice = schedule.TurnIn(by, record->count, import->turn);
      if (slice <= after) return absl::OkStatus();
      if (slice > now) continue;
      const Slice& turn = schedule.slices()[slice];
      const uint64_t when = turn.moment + (record->count - turn.count);
      AddLines(*import, of, [&](bool shown, const StoredLine& line) {
        seen->push_back({by, {slice, when}, shown, line});
      });
    }
    const uint64_t began = schedule.MomentTo(by, (*segment)->info().first_count);
    if (began == 0 || began > at || schedule.SliceAt(began) <= after) return absl::OkStatus();
    at = began - 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<const SeenStores::Evidence*> SeenStores::EvidenceOf(int32_t thread, size_t slice,
                                                                   LearnedSlices* learned) {
  const size_t known = evidence_.size();
  const auto [it, is_new] = evidence_.try_emplace({thread, slice});
  Evidence& evidence = it->second;
  if (!is_new || known >= kMostEvidence) return &evidence;
  const std::vector<Slice>& slices = process_.schedule().slices();
  evidence.from = std::max(learned->LastEvent(thread, slice), slices[slice].count);
  const size_t next = learned->Next(thread, slice);
  const uint64_t until = next < slices.size() ? std::min(slices[next].moment, moment_) : moment_;
  std::vector<Seen> seen;
  for (const int32_t other : process_.threads().all()) {
    if (other == thread || process_.threads().StartOf(other) > moment_) continue;
    RETURN_IF_ERROR(AddSeenBy(other, thread, slice, until, &seen));
  }
  if (seen.empty()) return &evidence;
  std::vector<StoredLine> lines;
  for (const Seen& entry : seen) lines.push_back(entry.line);
  RETURN_IF_ERROR(
      views_->FindStores(thread, evidence.from, until, absl::MakeSpan(lines), interrupt_));
  for (size_t i = 0; i < seen.size(); ++i) seen[i].line = lines[i];
  std::stable_sort(seen.begin(), seen.end(),
                   [](const Seen& a, const Seen& b) { return a.at.moment < b.at.moment; });
  evidence.seen = std::move(seen);
  return &evidence;
}

// Whether nobody but `thread` can have stored what was seen of this byte.
absl::StatusOr<bool> SeenStores::IsOnlyBy(int32_t thread, size_t slice, const Seen& seen,
                                          size_t byte, LearnedSlices* learned) {
  const uint64_t address = seen.line.address + byte, page = PageOf(address);
  PageBits bit;
  bit.set(address - page);
  const Slice& last = process_.schedule().slices()[slice];
  const uint64_t since = last.moment + (seen.line.since - last.count);
  const auto last_known = [&](int32_t who, uint64_t when,
                              uint64_t back_to) -> absl::StatusOr<KnownByte> {
    ASSIGN_OR_RETURN(const std::vector<Learned> found,
                     views_->LastKnown(who, std::nullopt, when, page, bit, back_to, interrupt_));
    return KnownByte{who, found[address - page]};
  };
  ASSIGN_OR_RETURN(const KnownByte own, last_known(thread, since, 0));
  const size_t began = learned->Began(own);
  for (const int32_t other : process_.threads().all()) {
    if (other == thread || process_.threads().StartOf(other) > moment_) continue;
    if (other == seen.by) {
      // It has found what it did not have, even if it had stored the same before.
      if (seen.at.moment == 0) return false;
      ASSIGN_OR_RETURN(const std::optional<uint8_t> had,
                       ByteOf(other, seen.at.moment - 1, address));
      if (had == seen.line.bytes[byte]) return false;
      continue;
    }
    ASSIGN_OR_RETURN(const std::optional<uint8_t> has, ByteOf(other, moment_, address));
    if (!has.has_value()) continue;
    // What it wrote in a slice that had begun by then may have been later.
    const uint64_t back_to = TurnOf(other, own.learned.moment);
    ASSIGN_OR_RETURN(const KnownByte known, last_known(other, moment_, back_to));
    const bool may_be_its = !known.learned.imported || known.learned.is_new;
    if (may_be_its && learned->WasOver(known) > began) return false;
  }
  return true;
}

// The moment at which the last slice of `thread` began that did so by `moment`; 0: none did.
uint64_t SeenStores::TurnOf(int32_t thread, uint64_t moment) const {
  const std::vector<Slice>& slices = process_.schedule().slices();
  const std::vector<uint32_t>& indices = process_.schedule().slices_of(thread);
  const auto next = std::partition_point(indices.begin(), indices.end(), [&](uint32_t index) {
    return slices[index].moment <= moment;
  });
  return next == indices.begin() ? 0 : slices[*std::prev(next)].moment;
}

// In the thread's view at `moment`; nothing: it does not have the page.
absl::StatusOr<std::optional<uint8_t>> SeenStores::ByteOf(int32_t thread, uint64_t moment,
                                                          uint64_t address) {
  const auto replay = views_->ReplayAt(thread, moment, interrupt_);
  if (absl::IsNotFound(replay.status())) return std::nullopt;
  RETURN_IF_ERROR(replay.status());
  uint8_t value = 0;
  if (!(*replay)->ReadHeld(address, absl::MakeSpan(&value, 1))) return std::nullopt;
  return value;
}

absl::StatusOr<std::optional<SeenStores::Sight>> SeenStores::FirstSight(const KnownByte& write,
                                                                        bool only_told,
                                                                        LearnedSlices* learned) {
  const size_t slice = learned->Began(write);
  ASSIGN_OR_RETURN(const Evidence* evidence, EvidenceOf(write.thread, slice, learned));
  size_t looked_up = 0;
  for (size_t i = 0; i < evidence->seen.size(); ++i) {
    const Seen& seen = evidence->seen[i];
    if (only_told && !seen.shown) continue;
    for (size_t byte = 0; byte < kLineBytes; ++byte) {
      if (seen.line.stored[byte] < write.learned.count) continue;
      if (seen.shown) return seen.at;
      const auto key = std::make_tuple(write.thread, slice, i, byte);
      auto only = only_by_.find(key);
      if (only == only_by_.end()) {
        if (++looked_up > kMostLookedUp) return std::nullopt;
        ASSIGN_OR_RETURN(const bool is, IsOnlyBy(write.thread, slice, seen, byte, learned));
        only = only_by_.emplace(key, is).first;
      }
      if (only->second) return seen.at;
    }
  }
  return std::nullopt;
}

}  // namespace hindsight
