#include "server/monitor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/syscall_names.h"
#include "server/proc_files.h"

namespace hindsight {

struct Monitor::Command {
  const char* name;
  const char* arguments;
  const char* summary;
  absl::StatusOr<std::string> (Monitor::*run)(absl::string_view arguments);
};

absl::Span<const Monitor::Command> Monitor::Commands() {
  static constexpr Command kCommands[] = {
      {"help", "", "this list", &Monitor::Help},
      {"when", "", "position, thread, instruction count, percent of the recording", &Monitor::When},
      {"goto", "start | end | POSITION | PERCENT% | snapshot N",
       "move there ('hindsight goto' also refreshes gdb)", &Monitor::GoToCommand},
      {"snapshots", "", "the full keyframes, numbered", &Monitor::Snapshots},
      {"events", "[N]", "the N (10) system calls and signals before and behind this position",
       &Monitor::Events},
      {"info", "", "program and recording", &Monitor::Info},
      {"maps", "", "the memory map at this position", &Monitor::Maps},
      {"statistics", "", "what time travel has cost so far", &Monitor::Statistics},
      {"discard", "", "leave the throw-away copy that writing to memory or registers has made",
       &Monitor::Discard},
  };
  return kCommands;
}

absl::StatusOr<std::string> Monitor::Run(absl::string_view command) {
  std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(
      absl::StripAsciiWhitespace(command), absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
  if (parts.first.empty()) parts.first = "help";
  for (const Command& candidate : Commands()) {
    if (candidate.name != parts.first) continue;
    absl::string_view arguments = absl::StripAsciiWhitespace(parts.second);
    if (!arguments.empty() && candidate.arguments[0] == '\0') {
      return absl::InvalidArgumentError(absl::StrCat("'", candidate.name, "' takes no arguments"));
    }
    return (this->*candidate.run)(arguments);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown command '", parts.first, "' (see 'monitor help')"));
}

absl::StatusOr<std::string> Monitor::Help(absl::string_view) {
  std::string out;
  for (const Command& command : Commands()) {
    absl::StrAppend(&out, "monitor ", command.name, command.arguments[0] == '\0' ? "" : " ",
                    command.arguments, "\n    ", command.summary, "\n");
  }
  return out;
}

absl::StatusOr<std::string> Monitor::When(absl::string_view) {
  return absl::StrFormat("position %s, thread %d, instruction %d, %.4g%%\n",
                         ToString(timeline_->position()), timeline_->current_thread(),
                         timeline_->moment(), timeline_->percent());
}

absl::Status Monitor::GoTo(absl::string_view where) {
  where = absl::StripAsciiWhitespace(where);
  if (where == "start") return timeline_->SeekTo(uint64_t{0});
  if (where == "end") return timeline_->SeekTo(timeline_->end_moment());
  if (absl::ConsumePrefix(&where, "snapshot")) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(where, &number)) {
      return absl::InvalidArgumentError("goto snapshot: which number?");
    }
    for (const Snapshot& snapshot : timeline_->process().snapshots()) {
      if (snapshot.number == number) return timeline_->SeekTo(snapshot.moment);
    }
    return absl::InvalidArgumentError(absl::StrCat("no snapshot ", number));
  }
  if (absl::ConsumeSuffix(&where, "%")) {
    double percent = 0;
    if (!absl::SimpleAtod(where, &percent) || !(percent >= 0 && percent <= 100)) {
      return absl::InvalidArgumentError("a percentage is a number from 0 to 100");
    }
    return timeline_->SeekTo(timeline_->process().MomentAtPercent(percent));
  }
  absl::StatusOr<Position> position = ParsePosition(where);
  if (!position.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "goto where? start, end, a position like 1A:3F, a percentage like 50%, or snapshot N"));
  }
  return timeline_->SeekTo(*position);
}

absl::StatusOr<std::string> Monitor::GoToCommand(absl::string_view arguments) {
  RETURN_IF_ERROR(GoTo(arguments));
  return When("");
}

absl::StatusOr<std::string> Monitor::Snapshots(absl::string_view) {
  std::string out;
  for (const Snapshot& snapshot : timeline_->process().snapshots()) {
    absl::StrAppendFormat(&out, "%d: position %s, %.4g%%, %d pages\n", snapshot.number,
                          ToString(timeline_->process().PositionAt(snapshot.moment)),
                          timeline_->process().PercentAt(snapshot.moment), snapshot.page_count);
  }
  return out.empty() ? "no snapshots\n" : out;
}

namespace {

std::string SyscallText(const ProcessEvent& event) {
  const char* name = SyscallName(event.number);
  return absl::StrFormat(
      "%s(%s) = %d", name != nullptr ? name : absl::StrCat("system call ", event.number),
      absl::StrJoin(
          event.arguments, ", ",
          [](std::string* out, uint64_t argument) { absl::StrAppendFormat(out, "%#x", argument); }),
      event.result);
}

std::string EventLine(const TimelineEvent& listed, const ProcessState& process, bool is_next) {
  const ProcessEvent& event = *listed.event;
  std::string what;
  switch (event.kind) {
    case EventKind::kSyscall:
      what = SyscallText(event);
      break;
    case EventKind::kSignal:
      what = absl::StrCat("signal ", event.number, " (", strsignal(event.number), ")");
      break;
    case EventKind::kFullKeyframe:
      what = absl::StrCat("snapshot ", event.number);
      break;
    case EventKind::kProcessExit:
      what = "the process ended";
      break;
    default:
      what = event.text.empty() ? "event" : event.text;
  }
  std::string position =
      listed.moment > process.end_moment() ? "end" : ToString(process.PositionAt(listed.moment));
  return absl::StrFormat("%s %s: %s\n", is_next ? ">" : " ", position, what);
}

// Changes of the memory map are the consequence of a system call listed next to them, and threads
// begin and end with the program.
bool IsListed(const ProcessEvent& event) {
  return event.kind != EventKind::kMapChange && event.kind != EventKind::kThreadStart &&
         event.kind != EventKind::kThreadExit;
}

}  // namespace

absl::StatusOr<std::string> Monitor::Events(absl::string_view arguments) {
  uint32_t number = 10;
  if (!arguments.empty() && !absl::SimpleAtoi(arguments, &number)) {
    return absl::InvalidArgumentError("events: how many?");
  }
  std::vector<TimelineEvent> listed;
  for (const TimelineEvent& event : timeline_->process().events()) {
    if (IsListed(*event.event)) listed.push_back(event);
  }
  const uint64_t here = timeline_->moment();
  auto next = std::partition_point(listed.begin(), listed.end(),
                                   [here](const TimelineEvent& e) { return e.moment <= here; });
  auto first = next - std::min<ptrdiff_t>(next - listed.begin(), number);
  auto last = next + std::min<ptrdiff_t>(listed.end() - next, number);
  std::string out;
  for (auto it = first; it != last; ++it) {
    absl::StrAppend(&out, EventLine(*it, timeline_->process(), it == next));
  }
  return out.empty() ? "no events\n" : out;
}

absl::StatusOr<std::string> Monitor::Info(absl::string_view) {
  const Manifest& manifest = trace_->manifest();
  return absl::StrFormat(
      "trace %s\nprogram %s\narguments %s\nprocess %d\npositions %s to %s, %d instructions\n%s",
      trace_->directory(), manifest.program, absl::StrJoin(manifest.arguments, " "), manifest.pid,
      ToString(timeline_->process().PositionAt(0)),
      ToString(timeline_->process().PositionAt(timeline_->end_moment())), timeline_->end_moment(),
      manifest.state == TraceState::kComplete ? "" : "the recording was interrupted\n");
}

absl::StatusOr<std::string> Monitor::Maps(absl::string_view) {
  return MapsText(timeline_->process().MapsAt(timeline_->moment()));
}

absl::StatusOr<std::string> Monitor::Statistics(absl::string_view) {
  Timeline::Statistics statistics = timeline_->statistics();
  return absl::StrFormat("%d checkpoints (%.1f MB), %.1f M instructions replayed\n",
                         statistics.checkpoints, statistics.checkpoint_bytes / 1e6,
                         statistics.states_replayed / 1e6);
}

// The session, which knows whether there is a copy, answers this before asking here.
absl::StatusOr<std::string> Monitor::Discard(absl::string_view) { return ""; }

}  // namespace hindsight
