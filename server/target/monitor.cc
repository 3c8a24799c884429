#include "server/target/monitor.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "keyframes/inspect/event_list.h"
#include "keyframes/inspect/proc_files.h"

namespace hindsight {
namespace {

// Far from each other, the places where system calls were made take long to look at: then pointers
// are shown.
constexpr std::chrono::seconds kPatienceForStrings(1);

}  // namespace

struct Monitor::Command {
  const char* name;
  const char* arguments;
  const char* summary;
  absl::StatusOr<std::string> (Monitor::*run)(const Question& question);
};

absl::Span<const Monitor::Command> Monitor::Commands() {
  static constexpr Command kCommands[] = {
      {"help", "", "this list", &Monitor::Help},
      {"when", "[TID]", "position, thread, instruction count, percent of the recording",
       &Monitor::When},
      {"goto", "start | end | POSITION | PERCENT% | snapshot N | bookmark NAME | thread TID [end]",
       "move there ('hindsight goto' also refreshes gdb)", &Monitor::Jump},
      {"bookmark", "NAME [POSITION]", "give this position, or that one, a name",
       &Monitor::Bookmark},
      {"unbookmark", "NAME", "forget that name", &Monitor::Unbookmark},
      {"bookmarks", "", "all of them", &Monitor::Bookmarks},
      {"back", "", "return to the place visited before", &Monitor::Back},
      {"forward", "", "and to where 'back' left", &Monitor::Forward},
      {"threads", "", "all threads of the recording, from where to where they lived",
       &Monitor::Threads},
      {"processes", "", "all processes of the recording", &Monitor::Processes},
      {"snapshots", "", "the full keyframes, numbered", &Monitor::Snapshots},
      {"events", "[N] [thread TID] [syscall | signal | fork | exec | thread | snapshot]...",
       "the N (10) events before and behind this position", &Monitor::Events},
      {"info", "", "program and recording", &Monitor::Info},
      {"maps", "", "the memory map at this position", &Monitor::Maps},
      {"statistics", "", "what time travel has cost so far", &Monitor::Statistics},
      {"discard", "", "leave the throw-away copy that writing to memory or registers has made",
       &Monitor::Discard},
  };
  return kCommands;
}

absl::StatusOr<MonitorResult> Monitor::Run(absl::string_view command, int32_t selected,
                                           const std::atomic<bool>* interrupt) {
  std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(
      absl::StripAsciiWhitespace(command), absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
  if (parts.first.empty()) parts.first = "help";
  for (const Command& candidate : Commands()) {
    if (candidate.name != parts.first) continue;
    absl::string_view arguments = absl::StripAsciiWhitespace(parts.second);
    if (!arguments.empty() && candidate.arguments[0] == '\0') {
      return absl::InvalidArgumentError(absl::StrCat("'", candidate.name, "' takes no arguments"));
    }
    MonitorResult result;
    ASSIGN_OR_RETURN(result.output,
                     (this->*candidate.run)({arguments, selected, interrupt, &result.thread}));
    return result;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown command '", parts.first, "' (see 'monitor help')"));
}

absl::StatusOr<std::string> Monitor::Help(const Question&) {
  std::string out;
  for (const Command& command : Commands()) {
    absl::StrAppend(&out, "monitor ", command.name, command.arguments[0] == '\0' ? "" : " ",
                    command.arguments, "\n    ", command.summary, "\n");
  }
  return out;
}

absl::StatusOr<int32_t> Monitor::ParseThread(absl::string_view text) const {
  int32_t thread = 0;
  if (absl::SimpleAtoi(text, &thread) && timeline_->process().HasThread(thread)) return thread;
  return absl::InvalidArgumentError(absl::StrCat("no thread '", text, "' (see 'monitor threads')"));
}

std::string Monitor::WhereIs(int32_t thread) const {
  return absl::StrFormat("position %s, thread %d, instruction %d, %.4g%%\n",
                         ToString(timeline_->position(thread)), thread,
                         timeline_->count(thread) - timeline_->thread_state(thread).begin_count(),
                         timeline_->percent());
}

absl::StatusOr<std::string> Monitor::When(const Question& question) {
  if (question.arguments.empty()) return WhereIs(question.selected);
  ASSIGN_OR_RETURN(const int32_t thread, ParseThread(question.arguments));
  if (timeline_->IsAlive(thread)) return WhereIs(thread);
  return absl::InvalidArgumentError(absl::StrCat("no thread ", thread, " at this position"));
}

// The thread whose position it is stands there now, but need not be the one that goes on.
absl::StatusOr<int32_t> Monitor::GoToPosition(const Position& position,
                                              const std::atomic<bool>* interrupt) {
  RETURN_IF_ERROR(timeline_->SeekTo(position, interrupt));
  std::vector<int32_t> candidates = timeline_->threads();
  candidates.insert(candidates.begin(), timeline_->current_thread());
  for (const int32_t thread : candidates) {
    if (timeline_->position(thread) == position) return thread;
  }
  return timeline_->current_thread();
}

absl::StatusOr<int32_t> Monitor::GoToThread(absl::string_view which,
                                            const std::atomic<bool>* interrupt) {
  std::vector<absl::string_view> words = absl::StrSplit(which, ' ', absl::SkipEmpty());
  if (words.empty() || words.size() > 2 || (words.size() == 2 && words[1] != "end")) {
    return absl::InvalidArgumentError("goto thread TID, or goto thread TID end");
  }
  ASSIGN_OR_RETURN(const int32_t thread, ParseThread(words[0]));
  const ProcessState& process = timeline_->process();
  RETURN_IF_ERROR(timeline_->SeekTo(
      words.size() == 2 ? process.EndOf(thread) : process.StartOf(thread), interrupt));
  return timeline_->IsAlive(thread) ? thread : timeline_->current_thread();
}

absl::StatusOr<int32_t> Monitor::GoTo(absl::string_view where, int32_t selected,
                                      const std::atomic<bool>* interrupt) {
  const Place before = {timeline_->moment(), selected};
  ASSIGN_OR_RETURN(const int32_t thread, Go(where, interrupt));
  places_.Visit(before);
  Visit(thread);
  return thread;
}

absl::StatusOr<int32_t> Monitor::Go(absl::string_view where, const std::atomic<bool>* interrupt) {
  where = absl::StripAsciiWhitespace(where);
  const ProcessState& process = timeline_->process();
  std::optional<uint64_t> moment;
  if (where == "start") {
    moment = 0;
  } else if (where == "end") {
    moment = timeline_->end_moment();
  } else if (absl::ConsumePrefix(&where, "snapshot")) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(where, &number)) {
      return absl::InvalidArgumentError("goto snapshot: which number?");
    }
    for (const Snapshot& snapshot : process.snapshots()) {
      if (snapshot.number == number) moment = snapshot.moment;
    }
    if (!moment) return absl::InvalidArgumentError(absl::StrCat("no snapshot ", number));
  } else if (absl::ConsumePrefix(&where, "thread")) {
    return GoToThread(where, interrupt);
  } else if (absl::ConsumePrefix(&where, "bookmark ")) {
    where = absl::StripAsciiWhitespace(where);
    const Position* const position = places_.bookmark(where);
    if (position != nullptr) return GoToPosition(*position, interrupt);
    return absl::InvalidArgumentError(
        absl::StrCat("no bookmark '", where, "' (see 'monitor bookmarks')"));
  } else if (absl::ConsumeSuffix(&where, "%")) {
    double percent = 0;
    if (!absl::SimpleAtod(where, &percent) || !(percent >= 0 && percent <= 100)) {
      return absl::InvalidArgumentError("a percentage is a number from 0 to 100");
    }
    moment = process.MomentAtPercent(percent);
  } else {
    absl::StatusOr<Position> position = ParsePosition(where);
    if (position.ok()) return GoToPosition(*position, interrupt);
    return absl::InvalidArgumentError(
        "goto where? start, end, a position like 1A:3F, a percentage like 50%, snapshot N, "
        "bookmark NAME, or thread TID");
  }
  RETURN_IF_ERROR(timeline_->SeekTo(*moment, interrupt));
  return timeline_->current_thread();
}

absl::StatusOr<std::string> Monitor::Jump(const Question& question) {
  ASSIGN_OR_RETURN(*question.goes_to,
                   GoTo(question.arguments, question.selected, question.interrupt));
  return WhereIs(*question.goes_to);
}

absl::StatusOr<std::string> Monitor::Bookmark(const Question& question) {
  std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(question.arguments, absl::MaxSplits(' ', 1));
  Position position = timeline_->position(question.selected);
  if (const absl::string_view text = absl::StripAsciiWhitespace(words.second); !text.empty()) {
    ASSIGN_OR_RETURN(position, ParsePosition(text));
  }
  RETURN_IF_ERROR(places_.SetBookmark(words.first, position));
  return absl::StrCat("bookmark ", words.first, " is position ", ToString(position), "\n");
}

absl::StatusOr<std::string> Monitor::Unbookmark(const Question& question) {
  if (places_.RemoveBookmark(question.arguments)) return "";
  return absl::InvalidArgumentError(
      absl::StrCat("no bookmark '", question.arguments, "' (see 'monitor bookmarks')"));
}

absl::StatusOr<std::string> Monitor::Bookmarks(const Question&) {
  std::string out;
  for (const auto& [name, position] : places_.bookmarks()) {
    absl::StrAppend(&out, name, ": position ", ToString(position), "\n");
  }
  return out.empty() ? "no bookmarks\n" : out;
}

absl::StatusOr<std::string> Monitor::Return(std::optional<Place> place, const Question& question) {
  if (!place.has_value()) return absl::InvalidArgumentError("no other place was visited there");
  RETURN_IF_ERROR(timeline_->SeekTo(place->moment, question.interrupt));
  *question.goes_to =
      timeline_->IsAlive(place->thread) ? place->thread : timeline_->current_thread();
  return WhereIs(*question.goes_to);
}

absl::StatusOr<std::string> Monitor::Back(const Question& question) {
  Visit(question.selected);
  const std::optional<Place> place = places_.Back();
  absl::StatusOr<std::string> where = Return(place, question);
  if (!where.ok() && place.has_value()) places_.Forward();  // interrupted: it stands where it was
  return where;
}

absl::StatusOr<std::string> Monitor::Forward(const Question& question) {
  Visit(question.selected);
  const std::optional<Place> place = places_.Forward();
  absl::StatusOr<std::string> where = Return(place, question);
  if (!where.ok() && place.has_value()) places_.Back();
  return where;
}

absl::StatusOr<std::string> Monitor::Threads(const Question& question) {
  const ProcessState& process = timeline_->process();
  std::string out;
  for (const int32_t thread : process.all_threads()) {
    const bool alive = timeline_->IsAlive(thread);
    const uint64_t start = process.StartOf(thread), end = process.EndOf(thread);
    // Before its first slice a thread has no number of its own, but its beginning has.
    const Position first = {process.thread(thread).start_sequence(), 0};
    absl::StrAppendFormat(&out, "%c %d %s: %s to %s, %s\n", thread == question.selected ? '*' : ' ',
                          thread,
                          Printable(process.NameAt(thread, alive ? timeline_->moment() : end)),
                          ToString(first), ToString(process.PositionAt(thread, end)),
                          alive ? absl::StrCat("at ", ToString(timeline_->position(thread)))
                          : start > timeline_->moment() ? "not begun"
                                                        : "ended");
  }
  return out;
}

absl::StatusOr<std::string> Monitor::Processes(const Question&) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::vector<ProcessInfo> processes,
                   ListProcesses(trace_->files().Recording(), &warnings));
  std::string out;
  for (const ProcessInfo& process : processes) {
    const Manifest& manifest = process.manifest;
    absl::StrAppendFormat(&out, "%c %d", manifest.uuid == trace_->manifest().uuid ? '*' : ' ',
                          manifest.pid);
    if (manifest.parent_pid != 0) absl::StrAppendFormat(&out, " (of %d)", manifest.parent_pid);
    absl::StrAppend(&out, ": ", Printable(absl::StrJoin(manifest.arguments, " ")), "\n");
  }
  for (const std::string& warning : warnings) absl::StrAppend(&out, Printable(warning), "\n");
  return out;
}

absl::StatusOr<std::string> Monitor::Snapshots(const Question&) {
  std::string out;
  for (const Snapshot& snapshot : timeline_->process().snapshots()) {
    absl::StrAppendFormat(&out, "%d: position %s, %.4g%%, %d pages\n", snapshot.number,
                          ToString(timeline_->process().PositionAt(snapshot.moment)),
                          timeline_->process().PercentAt(snapshot.moment), snapshot.page_count);
  }
  return out.empty() ? "no snapshots\n" : out;
}

absl::StatusOr<std::string> Monitor::Events(const Question& question) {
  EventFilter filter;
  std::vector<absl::string_view> words = absl::StrSplit(question.arguments, ' ', absl::SkipEmpty());
  for (size_t i = 0; i < words.size(); ++i) {
    if (i + 1 < words.size() && words[i] == "thread" &&
        absl::ascii_isdigit(static_cast<unsigned char>(words[i + 1][0]))) {
      ASSIGN_OR_RETURN(filter.thread, ParseThread(words[++i]));
    } else if (uint32_t number = 0; absl::SimpleAtoi(words[i], &number)) {
      filter.number = number;
    } else if (!filter.AddKind(words[i])) {
      return absl::InvalidArgumentError(absl::StrCat("events: what is '", words[i], "'?"));
    }
  }
  const uint64_t here = timeline_->moment();
  const auto start = std::chrono::steady_clock::now();
  const EventMemory memory = [&](const TimelineEvent& event) -> CallMemory {
    return [&, thread = event.event->thread, moment = event.moment](
               uint64_t address, absl::Span<uint8_t> out) -> size_t {
      if (std::chrono::steady_clock::now() - start > kPatienceForStrings || moment == 0) return 0;
      if (!timeline_->SeekTo(moment - 1, question.interrupt).ok()) return 0;
      if (!timeline_->IsAlive(thread)) return 0;
      return timeline_->ReadMemory(thread, address, out, question.interrupt).value_or(0);
    };
  };
  std::string text = ListEvents(timeline_->process(), here, filter, memory);
  if (timeline_->moment() != here) RETURN_IF_ERROR(timeline_->SeekTo(here, nullptr));
  return text;
}

absl::StatusOr<std::string> Monitor::Info(const Question&) {
  const Manifest& manifest = trace_->manifest();
  const ProcessState& process = timeline_->process();
  return absl::StrFormat(
      "trace %s\nprogram %s\narguments %s\nprocess %d\n%d threads, positions %s to %s, %d "
      "instructions\n%s",
      Printable(trace_->directory()), Printable(manifest.program),
      Printable(absl::StrJoin(manifest.arguments, " ")), manifest.pid, process.all_threads().size(),
      ToString(process.PositionAt(0)), ToString(process.PositionAt(timeline_->end_moment())),
      timeline_->end_moment(),
      manifest.state == TraceState::kComplete ? "" : "the recording was interrupted\n");
}

absl::StatusOr<std::string> Monitor::Maps(const Question&) {
  return MapsText(timeline_->process().MapsAt(timeline_->moment()));
}

absl::StatusOr<std::string> Monitor::Statistics(const Question&) {
  Timeline::Statistics statistics = timeline_->statistics();
  return absl::StrFormat("%d checkpoints (%.1f MB), %.1f M instructions replayed\n",
                         statistics.checkpoints, statistics.checkpoint_bytes / 1e6,
                         statistics.states_replayed / 1e6);
}

// The session, which knows whether there is a copy, answers this before asking here.
absl::StatusOr<std::string> Monitor::Discard(const Question&) { return ""; }

}  // namespace hindsight
