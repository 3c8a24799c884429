#include "keyframes/timeline/thread_stops.h"

#include <algorithm>
#include <array>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// Ranges kept of those known to be quiet.
constexpr size_t kMostQuiet = 64;

// Not all of the lines that `part` of the page lies in were known to other threads.
bool MayBeNews(const WatchedImport& import, const WatchedPart& part) {
  for (uint64_t line = part.offset / kLineBytes; line <= (part.offset + part.size - 1) / kLineBytes;
       ++line) {
    if ((import.known_mask >> line & 1) == 0) return true;
  }
  return false;
}

}  // namespace

void ThreadStops::Set(const RunRequest& request) {
  plain_.breakpoints.clear();
  for (const BreakpointSpec& stop : request.breakpoints) plain_.breakpoints.insert(stop.address);
  plain_.watchpoints.clear();
  quiet_.clear();
  may_be_old_ = host_->ViewsMayBeOld();
  for (const WatchpointSpec& stop : request.watchpoints) {
    plain_.watchpoints.push_back({.address = stop.address,
                                  .length = stop.length,
                                  .on_write = stop.on_write(),
                                  .on_read = stop.on_read(),
                                  .on_store = stop.on_store() || (stop.on_write() && may_be_old_)});
  }
}

void ThreadStops::Arm() const {
  replay_.here()->SetStops(plain_.breakpoints, plain_.watchpoints);
  if (!plain_.watchpoints.empty()) replay_.here()->SetQuiet(quiet_);
}

void ThreadStops::ArmWatchpoints() const {
  replay_.here()->SetStops({}, plain_.watchpoints);
  replay_.here()->SetQuiet(quiet_);
}

std::optional<size_t> ThreadStops::MatchingBreakpoint(const RunRequest& request) const {
  const uint64_t pc = replay_.here()->pc();
  for (size_t i = 0; i < request.breakpoints.size(); ++i) {
    const BreakpointSpec& stop = request.breakpoints[i];
    if (stop.address != pc || (stop.thread != 0 && stop.thread != thread())) continue;
    if (!stop.condition ||
        host_->Evaluate(thread(), replay_.count(), /*before=*/true, stop.condition)) {
      return i;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<WatchHit>> ThreadStops::AcceptWatch(const RunRequest& request,
                                                                 const WatchHit& hit, bool before) {
  std::optional<WatchHit> change = hit;
  if (!hit.silent.empty()) {
    ASSIGN_OR_RETURN(change, FirstChange(request, hit));
  }
  if (!change.has_value()) return std::nullopt;
  const WatchpointSpec& stop = request.watchpoints[change->index];
  if (!Concerns(stop)) return std::nullopt;
  if (stop.condition && !host_->Evaluate(thread(), replay_.count(), before, stop.condition)) {
    return std::nullopt;
  }
  return change;
}

// Of stores that change nothing in the view: the first that changes memory, or is to be reported
// whatever it changes.
absl::StatusOr<std::optional<WatchHit>> ThreadStops::FirstChange(const RunRequest& request,
                                                                 const WatchHit& hit) {
  for (const Watchpoints::Hit& store : hit.silent) {
    const WatchpointSpec& stop = request.watchpoints[store.index];
    if (!Concerns(stop)) continue;
    if (stop.on_store()) return WatchHit{hit.count, store.index, store.address};
    ASSIGN_OR_RETURN(const bool quiet, IsQuiet(store, hit.count));
    if (quiet) continue;
    ASSIGN_OR_RETURN(const std::optional<uint64_t> changed,
                     host_->FirstOldByte(thread(), hit.count, store.address, store.size));
    if (quiet_.size() >= kMostQuiet) quiet_.clear();
    quiet_.push_back({.index = store.index,
                      .address = store.address,
                      .size = store.size,
                      .states = {hit.count + 1, hit.count + 1}});
    if (changed.has_value()) return WatchHit{hit.count, store.index, *changed};
  }
  return std::nullopt;
}

// Whether memory has had what is stored since the thread, or another one, stored that there.
absl::StatusOr<bool> ThreadStops::IsQuiet(const Watchpoints::Hit& store, uint64_t count) {
  CountRange* latest = nullptr;
  for (QuietStores& quiet : quiet_) {
    if (!quiet.Covers(store) || count < quiet.states.from) continue;
    if (latest == nullptr || latest->from < quiet.states.from) latest = &quiet.states;
  }
  if (latest == nullptr) return false;
  for (uint64_t known = 0; latest->to <= count && latest->to != known;) {
    known = latest->to;
    ASSIGN_OR_RETURN(latest->to, host_->QuietUntil(thread(), known));
  }
  return count < latest->to;
}

RunStop ThreadStops::WatchStop(const RunRequest& request, const WatchHit& hit) const {
  const WatchpointSpec& watched = request.watchpoints[hit.index];
  RunStop stop;
  stop.kind = StopKind::kWatchpoint;
  stop.thread = thread();
  stop.index = hit.index;
  // An access may begin before the watched range.
  stop.address = std::max(hit.address, watched.address);
  stop.watch = watched.kind;
  return stop;
}

// The first watched byte of `import` that the process did not know when the thread made the
// transition out of the state `count`. Nothing, which is noted, if it did not know the page.
absl::StatusOr<std::optional<uint64_t>> ThreadStops::FirstNewByteSince(const WatchedImport& import,
                                                                       uint64_t count,
                                                                       const WatchedPart& part) {
  std::array<uint8_t, kPageBytes> before;
  const uint64_t number = replay_.state().SegmentAt(import.count);
  PageBits wanted;
  for (uint64_t i = part.offset; i < part.offset + part.size; ++i) wanted.set(i);
  const absl::Status status =
      host_->ReadBefore(thread(), number, count, import.page, wanted, absl::MakeSpan(before));
  if (absl::IsNotFound(status)) {
    unknown_imports_.push_back({import.count, import.page});
    return std::nullopt;
  }
  RETURN_IF_ERROR(status);
  const auto* known = reinterpret_cast<const char*>(before.data()) + part.offset;
  return FirstNewByte(import, plain_.watchpoints[import.index],
                      absl::string_view(known, part.size));
}

absl::StatusOr<std::optional<WatchHit>> ThreadStops::ChangedImport(
    const std::vector<WatchedImport>& imports) {
  const ThreadState& state = replay_.state();
  for (const WatchedImport& import : imports) {
    if (import.count == state.begin_count()) continue;
    if (import.keyframe != 0 && !host_->ComparesKeyframe(thread(), import.count, import.keyframe)) {
      continue;
    }
    const WatchedPart part = WatchedIn(import.page, plain_.watchpoints[import.index]);
    if (!MayBeNews(import, part)) continue;  // where many know the page, asking them takes long
    // Seen from the state before, the segment's own keyframe does not count as known.
    ASSIGN_OR_RETURN(std::optional<uint64_t> new_byte,
                     FirstNewByteSince(import, import.count - 1, part));
    // What others store while a segment's first pages are looked at may be in them, or not yet.
    const bool is_first =
        may_be_old_ && state.SegmentAt(import.count - 1) != state.SegmentAt(import.count);
    if (new_byte.has_value() && is_first) {
      ASSIGN_OR_RETURN(new_byte, FirstNewByteSince(import, import.count, part));
    }
    if (!new_byte.has_value()) continue;
    return WatchHit{import.count - 1, import.index, import.page + part.offset + *new_byte};
  }
  return std::nullopt;
}

}  // namespace hindsight
