#include "keyframes/state/place_text.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

Place PlaceAt(const ProcessState& process, uint64_t moment) {
  return {moment, process.schedule().ThreadAt(moment)};
}

// The thread that the position belongs to need not be the one that runs next.
absl::StatusOr<Place> PlaceOf(const Position& position, const ProcessState& process) {
  ASSIGN_OR_RETURN(const uint64_t moment, process.MomentAt(position));
  const Place place = PlaceAt(process, moment);
  std::vector<int32_t> candidates = process.threads().AliveAt(moment);
  candidates.insert(candidates.begin(), place.thread);
  for (const int32_t thread : candidates) {
    if (process.PositionAt(thread, moment) == position) return Place{moment, thread};
  }
  return place;
}

// "TID" or "TID end".
absl::StatusOr<Place> ParseEndOfThread(absl::string_view text, const ProcessState& process) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.empty() || words.size() > 2 || (words.size() == 2 && words[1] != "end")) {
    return absl::InvalidArgumentError("goto thread TID, or goto thread TID end");
  }
  ASSIGN_OR_RETURN(const int32_t thread, ParseThread(words[0], process));
  const uint64_t moment =
      words.size() == 2 ? process.threads().EndOf(thread) : process.threads().StartOf(thread);
  if (process.threads().IsAlive(thread, moment)) return Place{moment, thread};
  return PlaceAt(process, moment);
}

absl::StatusOr<Place> ParseSnapshot(absl::string_view text, const ProcessState& process) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) {
    return absl::InvalidArgumentError("goto snapshot: which number?");
  }
  for (const Snapshot& snapshot : process.named_snapshots()) {
    if (snapshot.number != number) continue;
    const int32_t asked = snapshot.event == nullptr ? 0 : snapshot.event->thread;
    if (asked != 0 && process.threads().IsAlive(asked, snapshot.moment)) {
      return Place{snapshot.moment, asked};
    }
    return PlaceAt(process, snapshot.moment);
  }
  return absl::InvalidArgumentError(absl::StrCat("no snapshot ", number));
}

}  // namespace

absl::StatusOr<int32_t> ParseThread(absl::string_view text, const ProcessState& process) {
  int32_t thread = 0;
  if (absl::SimpleAtoi(text, &thread) && process.threads().Has(thread)) return thread;
  return absl::InvalidArgumentError(absl::StrCat("no thread '", text, "' (see 'monitor threads')"));
}

absl::StatusOr<Place> ParsePlace(absl::string_view text, const ProcessState& process,
                                 const Places& places) {
  text = absl::StripAsciiWhitespace(text);
  if (text == "start") return PlaceAt(process, 0);
  if (text == "end") return PlaceAt(process, process.end_moment());
  if (absl::ConsumePrefix(&text, "snapshot")) return ParseSnapshot(text, process);
  if (absl::ConsumePrefix(&text, "thread")) return ParseEndOfThread(text, process);
  if (absl::ConsumePrefix(&text, "bookmark ")) {
    text = absl::StripAsciiWhitespace(text);
    const Position* const position = places.bookmark(text);
    if (position != nullptr) return PlaceOf(*position, process);
    return absl::InvalidArgumentError(
        absl::StrCat("no bookmark '", text, "' (see 'monitor bookmarks')"));
  }
  if (absl::ConsumeSuffix(&text, "%")) {
    double percent = 0;
    if (!absl::SimpleAtod(text, &percent) || !(percent >= 0 && percent <= 100)) {
      return absl::InvalidArgumentError("a percentage is a number from 0 to 100");
    }
    return PlaceAt(process, process.MomentAtPercent(percent));
  }
  const absl::StatusOr<Position> position = ParsePosition(text);
  if (position.ok()) return PlaceOf(*position, process);
  return absl::InvalidArgumentError(
      "goto where? start, end, a position like 1A:3F, a percentage like 50%, snapshot N, "
      "bookmark NAME, or thread TID");
}

std::string ThinnedText(const ProcessState& process, uint64_t moment) {
  if (process.IsWhole(moment)) return "";
  std::vector<int32_t> missing;
  for (const int32_t thread : process.threads().all()) {
    if (process.threads().BeginsLate(thread) && moment < process.threads().StartOf(thread)) {
      missing.push_back(thread);
    }
  }
  return absl::StrCat("this part of the recording has not all threads (missing: ",
                      missing.empty() ? "some that have ended" : absl::StrJoin(missing, ", "),
                      "); memory is what the selected thread has read or written itself");
}

}  // namespace hindsight
