#include "server/monitor/monitor.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "keyframes/inspect/event_list.h"
#include "keyframes/state/place_text.h"
#include "keyframes/state/snapshot_list.h"
#include "server/monitor/process_commands.h"

namespace hindsight {

Monitor::Monitor(const TraceReader* trace, Timeline* timeline, ProcessView* view, CoreFiles* files)
    : trace_(trace), timeline_(timeline), view_(view) {
  AddPlaces();
  AddContents();
  AddProcessCommands(trace, view, files, &commands_);
}

void Monitor::AddPlaces() {
  commands_.Add("when", "[TID]", "position, thread, instruction count, percent of the recording",
                this, &Monitor::When);
  commands_.Add(
      "goto",
      "start | end | POSITION | PERCENT% | snapshot N|next|previous | bookmark NAME | thread TID "
      "[end]",
      "move there ('hindsight goto' also refreshes gdb)", this, &Monitor::Jump);
  commands_.Add("bookmark", "NAME [POSITION]", "give this position, or that one, a name", this,
                &Monitor::Bookmark);
  commands_.Add("unbookmark", "NAME", "forget that name", this, &Monitor::Unbookmark);
  commands_.Add("bookmarks", "", "all of them", this, &Monitor::Bookmarks);
  commands_.Add("back", "", "return to the place visited before", this, &Monitor::Back);
  commands_.Add("forward", "", "return to where 'back' was used", this, &Monitor::Forward);
}

void Monitor::AddContents() {
  commands_.Add("threads", "",
                "all threads of the recording, and the positions between which they lived", this,
                &Monitor::Threads);
  commands_.Add("processes", "", "all processes of the recording", this, &Monitor::Processes);
  commands_.Add(
      "snapshots", "",
      "those that were asked for, and the present one; where none was, the full keyframes", this,
      &Monitor::Snapshots);
  commands_.Add("events",
                "[N] [thread TID] [syscall | signal | fork | exec | thread | snapshot]...",
                "the N (10) events before and after this position", this, &Monitor::Events);
  commands_.Add("info", "", "program and recording", this, &Monitor::Info);
  commands_.Add("statistics", "", "checkpoints made and instructions replayed so far", this,
                &Monitor::Statistics);
}

absl::StatusOr<MonitorResult> Monitor::Run(absl::string_view command, int32_t selected,
                                           const std::atomic<bool>* interrupt) {
  MonitorResult result;
  ASSIGN_OR_RETURN(result.output, commands_.Execute(command, {.selected = selected,
                                                              .interrupt = interrupt,
                                                              .selects = &result.thread}));
  return result;
}

std::string Monitor::WhereIs(int32_t thread) const {
  const std::string thinned = view_->Missing();
  return absl::StrFormat("position %s, thread %d, instruction %d, %.4g%%\n%s%s",
                         ToString(timeline_->position(thread)), thread,
                         timeline_->count(thread) - timeline_->thread_state(thread).begin_count(),
                         timeline_->percent(), thinned, thinned.empty() ? "" : "\n");
}

absl::StatusOr<std::string> Monitor::When(const Question& question) {
  if (question.arguments.empty()) return WhereIs(question.selected);
  ASSIGN_OR_RETURN(const int32_t thread, ParseThread(question.arguments, timeline_->process()));
  if (timeline_->IsAlive(thread)) return WhereIs(thread);
  return absl::InvalidArgumentError(absl::StrCat("no thread ", thread, " at this position"));
}

absl::StatusOr<std::string> Monitor::AbsolutePlace(absl::string_view where) const {
  const std::vector<absl::string_view> words = absl::StrSplit(where, ' ', absl::SkipEmpty());
  if (words.size() != 2 || words[0] != "snapshot" ||
      (words[1] != "next" && words[1] != "previous")) {
    return std::string(where);
  }
  const bool next = words[1] == "next";
  uint64_t found = 0;
  for (const Snapshot& snapshot : timeline_->process().named_snapshots()) {
    if (next && found == 0 && snapshot.moment > timeline_->moment()) found = snapshot.number;
    if (!next && snapshot.moment < timeline_->moment()) found = snapshot.number;
  }
  if (found != 0) return absl::StrCat("snapshot ", found);
  return absl::InvalidArgumentError(next ? "no snapshot after this position"
                                         : "no snapshot before this position");
}

absl::StatusOr<int32_t> Monitor::GoTo(absl::string_view where, int32_t selected,
                                      const std::atomic<bool>* interrupt) {
  const Place before = {timeline_->moment(), selected};
  ASSIGN_OR_RETURN(const std::string absolute, AbsolutePlace(where));
  ASSIGN_OR_RETURN(const Place place, ParsePlace(absolute, timeline_->process(), places_));
  RETURN_IF_ERROR(timeline_->SeekTo(place.moment, interrupt));
  places_.Visit(before);
  places_.Visit(place);
  return place.thread;
}

absl::StatusOr<std::string> Monitor::Jump(const Question& question) {
  ASSIGN_OR_RETURN(*question.selects,
                   GoTo(question.arguments, question.selected, question.interrupt));
  return WhereIs(*question.selects);
}

absl::StatusOr<std::string> Monitor::Bookmark(const Question& question) {
  std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(question.arguments, absl::MaxSplits(' ', 1));
  Position position = timeline_->position(question.selected);
  if (const absl::string_view text = absl::StripAsciiWhitespace(words.second); !text.empty()) {
    ASSIGN_OR_RETURN(position, ParsePosition(text));
    RETURN_IF_ERROR(timeline_->process().MomentAt(position).status());
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
  *question.selects =
      timeline_->IsAlive(place->thread) ? place->thread : timeline_->current_thread();
  return WhereIs(*question.selects);
}

absl::StatusOr<std::string> Monitor::Back(const Question& question) {
  Visit(question.selected);
  const std::optional<Place> place = places_.Back();
  absl::StatusOr<std::string> where = Return(place, question);
  if (!where.ok() && place.has_value()) places_.Forward();  // interrupted: it is where it was
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
  for (const int32_t thread : process.threads().all()) {
    const bool alive = timeline_->IsAlive(thread);
    const uint64_t start = process.threads().StartOf(thread), end = process.threads().EndOf(thread);
    const bool late = process.threads().BeginsLate(thread);
    // Before its first slice a thread has no number of its own, but its beginning has.
    const Position first = late ? process.PositionAt(thread, start)
                                : Position{process.thread(thread).start_sequence(), 0};
    absl::StrAppendFormat(
        &out, "%c %d %s: %s to %s, %s\n", thread == question.selected ? '*' : ' ', thread,
        Printable(process.threads().NameAt(thread, alive ? timeline_->moment() : end)),
        ToString(first), ToString(process.PositionAt(thread, end)),
        alive                         ? absl::StrCat("at ", ToString(timeline_->position(thread)))
        : start > timeline_->moment() ? (late ? "missing here" : "not begun")
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
  for (const Snapshot& snapshot : timeline_->process().named_snapshots()) {
    const std::string position = ToString(timeline_->process().PositionAt(snapshot.moment));
    const double percent = timeline_->process().PercentAt(snapshot.moment);
    if (snapshot.event == nullptr) {
      absl::StrAppendFormat(&out, "%d: position %s, %.4g%%, %d pages\n", snapshot.number, position,
                            percent, snapshot.page_count);
      continue;
    }
    const bool here = snapshot.moment == timeline_->moment();
    absl::StrAppendFormat(&out, "%s%s; position %s, %.4g%%\n", here ? "* " : "  ",
                          SnapshotText(DescribeSnapshot(*snapshot.event, snapshot.number)),
                          position, percent);
  }
  return out.empty() ? "no snapshots\n" : out;
}

absl::StatusOr<std::string> Monitor::Events(const Question& question) {
  EventFilter filter;
  std::vector<absl::string_view> words = absl::StrSplit(question.arguments, ' ', absl::SkipEmpty());
  for (size_t i = 0; i < words.size(); ++i) {
    if (i + 1 < words.size() && words[i] == "thread" &&
        absl::ascii_isdigit(static_cast<unsigned char>(words[i + 1][0]))) {
      ASSIGN_OR_RETURN(filter.thread, ParseThread(words[++i], timeline_->process()));
    } else if (uint32_t number = 0; absl::SimpleAtoi(words[i], &number)) {
      filter.number = number;
    } else if (!filter.AddKind(words[i])) {
      return absl::InvalidArgumentError(absl::StrCat("events: what is '", words[i], "'?"));
    }
  }
  return view_->ListEvents(filter, question.interrupt);
}

absl::StatusOr<std::string> Monitor::Info(const Question&) {
  const ProcessState& process = timeline_->process();
  return InfoText(*trace_,
                  absl::StrFormat("%d threads, positions %s to %s, %d instructions\n",
                                  process.threads().all().size(), ToString(process.PositionAt(0)),
                                  ToString(process.PositionAt(timeline_->end_moment())),
                                  timeline_->end_moment()));
}

absl::StatusOr<std::string> Monitor::Statistics(const Question&) {
  TimelineStatistics statistics = timeline_->statistics();
  return absl::StrFormat("%d checkpoints (%.1f MB), %.1f M instructions replayed\n",
                         statistics.checkpoints, statistics.checkpoint_bytes / 1e6,
                         statistics.states_replayed / 1e6);
}

}  // namespace hindsight
