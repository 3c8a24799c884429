#include "server/snapshots/snapshot_monitor.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "isa/registers.h"
#include "keyframes/inspect/proc_files.h"
#include "server/target/monitor_core.h"

namespace hindsight {

absl::Span<const SnapshotMonitor::Command> SnapshotMonitor::Commands() {
  static constexpr Command kCommands[] = {
      {"help", "", "this list", &SnapshotMonitor::Help},
      {"snapshots", "",
       "all of them: number, time, thread, trigger, level/class/id, label, attributes",
       &SnapshotMonitor::Snapshots},
      {"goto", "start | end | snapshot N | snapshot next | snapshot previous",
       "move there ('hindsight goto' also refreshes gdb)", &SnapshotMonitor::Jump},
      {"when", "", "the present snapshot", &SnapshotMonitor::When},
      {"threads", "", "the threads in this snapshot", &SnapshotMonitor::Threads},
      {"info", "", "program and snapshots", &SnapshotMonitor::Info},
      {"maps", "", "the memory map in this snapshot", &SnapshotMonitor::Maps},
      {"core", "FILE", "write the process as it is here to FILE, an ELF core for any debugger",
       &SnapshotMonitor::Core},
      {"edits", "", "what was written to the copy of this snapshot", &SnapshotMonitor::Edits},
      {"save", "edits FILE", "write these to FILE, for 'hindsight refine --edits=FILE'",
       &SnapshotMonitor::Save},
      {"discard", "", "throw away the copy made by writes to memory or registers",
       &SnapshotMonitor::Discard},
      {"bookmarks", "", "there are none in snapshots", &SnapshotMonitor::Bookmarks},
  };
  return kCommands;
}

absl::StatusOr<std::string> SnapshotMonitor::Run(absl::string_view command, int32_t selected,
                                                 const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(const auto found, FindCommand(Commands(), command));
  return (this->*found.first)({found.second, selected, interrupt});
}

absl::StatusOr<std::string> SnapshotMonitor::Help(const Question&) { return HelpText(Commands()); }

absl::StatusOr<std::string> SnapshotMonitor::When(const Question&) {
  return absl::StrCat("snapshot ", SnapshotText(view_->here()), "\n");
}

absl::Status SnapshotMonitor::GoTo(absl::string_view where) {
  absl::string_view word = absl::StripAsciiWhitespace(where);
  if (absl::ConsumePrefix(&word, "snapshot")) word = absl::StripAsciiWhitespace(word);
  size_t index = view_->index();
  if (word == "next") {
    if (++index == view_->snapshots().size()) {
      return absl::InvalidArgumentError("no snapshot after this one");
    }
  } else if (word == "previous") {
    if (index-- == 0) return absl::InvalidArgumentError("no snapshot before this one");
  } else {
    ASSIGN_OR_RETURN(index, FindSnapshot(view_->snapshots(), word));
  }
  view_->GoTo(index);
  return absl::OkStatus();
}

absl::StatusOr<std::string> SnapshotMonitor::Jump(const Question& question) {
  RETURN_IF_ERROR(GoTo(question.arguments));
  return When(question);
}

absl::StatusOr<std::string> SnapshotMonitor::Snapshots(const Question&) {
  std::string out;
  for (const SnapshotInfo& snapshot : view_->snapshots()) {
    absl::StrAppend(&out, snapshot.number == view_->here().number ? "* " : "  ",
                    SnapshotText(snapshot), "\n");
  }
  return out;
}

absl::StatusOr<std::string> SnapshotMonitor::Threads(const Question& question) {
  std::string out;
  for (const int32_t thread : view_->threads()) {
    absl::StrAppend(&out, thread == question.selected ? "* " : "  ", thread, " ",
                    Printable(view_->ThreadName(thread)), "\n");
  }
  return out;
}

absl::StatusOr<std::string> SnapshotMonitor::Info(const Question&) {
  const Manifest& manifest = trace_->manifest();
  return absl::StrFormat("trace %s\nprogram %s\narguments %s\nprocess %d\n%d snapshots\n%s",
                         Printable(trace_->directory()), Printable(manifest.program),
                         Printable(absl::StrJoin(manifest.arguments, " ")), manifest.pid,
                         view_->snapshots().size(),
                         manifest.state == TraceState::kComplete ? "" : "it was interrupted\n");
}

absl::StatusOr<std::string> SnapshotMonitor::Maps(const Question&) {
  return MapsText(view_->Regions());
}

absl::StatusOr<std::string> SnapshotMonitor::Bookmarks(const Question&) {
  return std::string("no bookmarks\n");
}

absl::StatusOr<StateEdits> SnapshotMonitor::CurrentEdits() {
  absl::StatusOr<StateEdits> edits = process_->Edits();
  if (absl::IsFailedPrecondition(edits.status())) {
    return absl::InvalidArgumentError(edits.status().message());
  }
  RETURN_IF_ERROR(edits.status());
  edits->uuid = trace_->manifest().uuid;
  edits->snapshot = view_->here().number;
  return edits;
}

absl::StatusOr<std::string> SnapshotMonitor::Edits(const Question&) {
  ASSIGN_OR_RETURN(const StateEdits edits, CurrentEdits());
  if (edits.empty()) return absl::StrCat("snapshot ", edits.snapshot, " is as it was taken\n");
  return absl::StrCat("in a throw-away copy of snapshot ", edits.snapshot, ":\n", EditLines(edits));
}

absl::StatusOr<std::string> SnapshotMonitor::Save(const Question& question) {
  absl::string_view path = question.arguments;
  if (!absl::ConsumePrefix(&path, "edits") || (!path.empty() && path[0] != ' ')) {
    return absl::InvalidArgumentError("save what? 'save edits FILE'");
  }
  path = absl::StripAsciiWhitespace(path);
  ASSIGN_OR_RETURN(const StateEdits edits, CurrentEdits());
  if (edits.empty())
    return absl::InvalidArgumentError("save: nothing was written to this snapshot");
  RETURN_IF_ERROR(WriteTextFor(EditsFile(edits), OutputKind::kEdits, path, files_));
  return absl::StrCat(Printable(path), ": ", edits.memory.size(), " edits of memory, ",
                      edits.registers.size(), " of registers, of snapshot ", edits.snapshot, "\n");
}

// The session handles this one; it is here for the list.
absl::StatusOr<std::string> SnapshotMonitor::Discard(const Question&) { return ""; }

absl::StatusOr<std::string> SnapshotMonitor::Core(const Question& question) {
  return WriteCoreFor(
      view_,
      {.thread = question.selected,
       .extended_registers = trace_->manifest().register_layout != kBaseRegisterLayout,
       .interrupt = question.interrupt},
      question.arguments, files_);
}

}  // namespace hindsight
