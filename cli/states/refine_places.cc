#include "cli/states/refine_places.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/states/recorded_code.h"
#include "keyframes/inspect/elf_image.h"
#include "keyframes/state/place_text.h"
#include "recorder/symbols/named_places.h"

namespace hindsight {
namespace {

constexpr uint64_t kDefaultMax = 1000;
constexpr uint64_t kDefaultCount = 10;
constexpr uint64_t kMostWatchedBytes = 1 << 20;
// As in a snapshot's event: who triggered it.
constexpr uint64_t kCondition = 3, kTimer = 7, kFunction = 8, kRequest = 9;

bool ParseNumber(absl::string_view text, uint64_t* number) {
  if (absl::StartsWith(text, "0x")) return absl::SimpleHexAtoi(text, number);
  return absl::SimpleAtoi(text, number);
}

// `value` as far between `low` and `high` as `at` is between `from` and `to`.
uint64_t Between(uint64_t at, uint64_t from, uint64_t to, uint64_t low, uint64_t high) {
  if (to <= from) return low;
  const double part = static_cast<double>(at - from) / static_cast<double>(to - from);
  return low + static_cast<uint64_t>(part * static_cast<double>(high - low));
}

}  // namespace

RecordedTimes::RecordedTimes(const TraceReader& trace, const ProcessState& process) {
  known_.push_back({0, 0});
  for (const ProcessEvent& event : trace.events()) {
    const bool has_time = event.kind == EventKind::kSlice || event.kind == EventKind::kSchedule;
    if (!has_time || event.arguments.empty() || !process.threads().Has(event.thread)) continue;
    known_.push_back(
        {process.schedule().MomentFrom(event.thread, event.count), event.arguments[0]});
  }
  known_.push_back({process.end_moment(), trace.manifest().end_time_ns});
  std::stable_sort(known_.begin(), known_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 1; i < known_.size(); ++i) {
    known_[i].second = std::max(known_[i].second, known_[i - 1].second);
  }
}

uint64_t RecordedTimes::AtMoment(uint64_t moment) const {
  const auto next = std::upper_bound(known_.begin() + 1, known_.end() - 1, moment,
                                     [](uint64_t at, const auto& one) { return at < one.first; });
  const auto before = std::prev(next);
  return Between(std::min(moment, next->first), before->first, next->first, before->second,
                 next->second);
}

uint64_t RecordedTimes::MomentAt(uint64_t time_ns) const {
  const auto next = std::upper_bound(known_.begin() + 1, known_.end() - 1, time_ns,
                                     [](uint64_t at, const auto& one) { return at < one.second; });
  const auto before = std::prev(next);
  return Between(std::min(time_ns, next->second), before->second, next->second, before->first,
                 next->first);
}

absl::StatusOr<uint64_t> RefinePlaces::MomentOf(const std::string& text,
                                                const char* otherwise) const {
  uint64_t number = 0;
  const std::string place = text.empty()                      ? otherwise
                            : absl::SimpleAtoi(text, &number) ? absl::StrCat("snapshot ", number)
                                                              : text;
  ASSIGN_OR_RETURN(const Place found, ParsePlace(place, timeline_->process(), Places()));
  return found.moment;
}

absl::Status RefinePlaces::Add(uint64_t moment, Moment what) {
  moments_.try_emplace(moment, std::move(what));
  if (moments_.size() <= max_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("these are more than ", max_, " snapshots; --max=N allows more"));
}

absl::Status RefinePlaces::AddEvenly(uint64_t from, uint64_t to, uint64_t count) {
  for (uint64_t i = 0; i + 1 < count; ++i) {
    const uint64_t moment = Between(i, 0, count - 1, from, to);
    RETURN_IF_ERROR(Add(moment, {.trigger = kRequest}));
  }
  return absl::OkStatus();
}

absl::Status RefinePlaces::AddTimes(uint64_t from, uint64_t to, uint64_t every_ns,
                                    const RecordedTimes& times) {
  const uint64_t end = times.AtMoment(to);
  for (uint64_t time = times.AtMoment(from) + every_ns; time < end; time += every_ns) {
    const uint64_t moment = times.MomentAt(time);
    if (moment > from && moment < to) RETURN_IF_ERROR(Add(moment, {.trigger = kTimer}));
  }
  return absl::OkStatus();
}

template <typename Visit>
void RefinePlaces::ForEachImage(Visit visit) const {
  for (const MapRegion& region : view_->Regions()) {
    if (region.module < 0 || region.file_offset != 0) continue;
    const auto bytes = trace_->ModuleBytes(region.module);
    if (!bytes.ok()) continue;
    const auto image = ElfImage::Parse(*bytes);
    const std::optional<uint64_t> first =
        image.ok() ? image->FirstAddress() : std::optional<uint64_t>();
    if (first.has_value()) visit(*image, region.start - *first, region.name);
  }
}

// A function that is chosen by the processor (STT_GNU_IFUNC) is known once the program has begun:
// so the end comes first.
absl::StatusOr<std::set<uint64_t>> RefinePlaces::CodeAddresses(uint64_t from, uint64_t to,
                                                               const RecordingRefinement& wanted) {
  ASSIGN_OR_RETURN(NamedPlaces places, NamedPlaces::Parse(wanted.at));
  if (places.empty()) return std::set<uint64_t>();
  RecordedCode code(trace_, view_);
  std::set<uint64_t> addresses;
  std::set<std::string> found;
  for (const uint64_t moment : {to, from}) {
    RETURN_IF_ERROR(timeline_->SeekTo(moment));
    const std::set<std::string> before = found;
    for (const auto& [address, name] : places.Find(code.Map(), code.Source()).names) {
      if (before.count(name) == 0) addresses.insert(address);
      found.insert(name);
    }
  }
  const std::vector<std::string> problems = places.Problems();
  if (problems.empty()) return addresses;
  return absl::InvalidArgumentError(absl::StrCat("--at=", problems[0]));
}

absl::StatusOr<WatchpointSpec> RefinePlaces::Variable(const std::string& name) const {
  std::optional<WatchpointSpec> found;
  if (const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(name, ',');
      !parts.second.empty()) {
    found.emplace();
    if (!ParseNumber(parts.first, &found->address) || !ParseNumber(parts.second, &found->length)) {
      return absl::InvalidArgumentError(absl::StrCat("--watch: ", name, " is not ADDRESS,SIZE"));
    }
  } else {
    const std::string path = view_->ExecutablePath();
    bool in_program = false;
    ForEachImage([&](const ElfImage& image, uint64_t base, const std::string& file) {
      if (found.has_value() && (in_program || file != path)) return;
      for (const ElfImage::Object& object : image.Objects()) {
        if (object.name != name) continue;
        in_program = file == path;
        found = {.address = base + object.address, .length = object.size_bytes};
        return;
      }
    });
  }
  if (!found.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--watch: there is no variable ", name,
                     " with a symbol and a size (ADDRESS,SIZE names any "
                     "memory)"));
  }
  if (found->length == 0 || found->length > kMostWatchedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--watch: ", name, " has no bytes, or more than can be watched"));
  }
  return *found;
}

absl::StatusOr<RunRequest> RefinePlaces::MakeRequest(const RecordingRefinement& wanted) const {
  RunRequest request;
  for (const std::string& name : wanted.watch) {
    ASSIGN_OR_RETURN(const WatchpointSpec watch, Variable(name));
    request.watchpoints.push_back(watch);
  }
  request.stop_for_signal = [](int) { return false; };
  return request;
}

absl::Status RefinePlaces::AddStops(uint64_t from, uint64_t to, const RecordingRefinement& wanted) {
  ASSIGN_OR_RETURN(const std::set<uint64_t> code, CodeAddresses(from, to, wanted));
  RETURN_IF_ERROR(timeline_->SeekTo(from));
  absl::StatusOr<RunRequest> found = MakeRequest(wanted);
  if (absl::IsInvalidArgument(found.status())) {
    // Perhaps of a library that is loaded later.
    RETURN_IF_ERROR(timeline_->SeekTo(to));
    found = MakeRequest(wanted);
    RETURN_IF_ERROR(found.status());
    RETURN_IF_ERROR(timeline_->SeekTo(from));
  }
  RunRequest& request = *found;
  for (const uint64_t address : code) request.breakpoints.push_back({.address = address});
  for (;;) {
    const uint64_t before = timeline_->moment();
    ASSIGN_OR_RETURN(const RunStop stop, timeline_->Run(request));
    if (stop.kind == StopKind::kEnd || timeline_->moment() > to) return absl::OkStatus();
    const bool breaks = stop.kind == StopKind::kBreakpoint;
    if (breaks || stop.kind == StopKind::kWatchpoint) {
      RETURN_IF_ERROR(Add(timeline_->moment(),
                          {.thread = stop.thread, .trigger = breaks ? kFunction : kCondition}));
    }
    request.leave_first_breakpoint = true;
    if (timeline_->moment() == before && !breaks) {
      ASSIGN_OR_RETURN(const bool moved, timeline_->StepForward(timeline_->current_thread()));
      if (!moved) return absl::OkStatus();
    }
  }
}

absl::StatusOr<RefinePlaces::Moments> RefinePlaces::Find(const RecordingRefinement& wanted,
                                                         const RecordedTimes& times) {
  moments_.clear();
  max_ = wanted.max == 0 ? kDefaultMax : wanted.max;
  ASSIGN_OR_RETURN(const uint64_t from, MomentOf(wanted.from, "start"));
  ASSIGN_OR_RETURN(const uint64_t to, MomentOf(wanted.to, "end"));
  if (to < from) return absl::InvalidArgumentError("--to lies before --from");
  const bool some = wanted.count > 0 || wanted.every_moments > 0 ||
                    wanted.every > absl::ZeroDuration() || !wanted.at.empty() ||
                    !wanted.watch.empty();
  if (!wanted.at.empty() || !wanted.watch.empty()) {
    RETURN_IF_ERROR(AddStops(from, to, wanted));
  }
  RETURN_IF_ERROR(Add(from, {.trigger = kRequest}));
  RETURN_IF_ERROR(Add(to, {.trigger = kRequest}));
  if (wanted.count > 0 || !some) {
    RETURN_IF_ERROR(AddEvenly(from, to, some ? wanted.count : kDefaultCount));
  }
  if (wanted.every_moments > 0) {
    for (uint64_t at = from; to - at > wanted.every_moments; at += wanted.every_moments) {
      RETURN_IF_ERROR(Add(at + wanted.every_moments, {.trigger = kTimer}));
    }
  }
  if (wanted.every > absl::ZeroDuration()) {
    const uint64_t ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(wanted.every));
    RETURN_IF_ERROR(AddTimes(from, to, std::max<uint64_t>(ns, 1), times));
  }
  return std::move(moments_);
}

}  // namespace hindsight
