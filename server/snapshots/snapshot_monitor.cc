#include "server/snapshots/snapshot_monitor.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "server/monitor/monitor_files.h"
#include "server/monitor/process_commands.h"

namespace hindsight {

SnapshotMonitor::SnapshotMonitor(const TraceReader* trace, SnapshotView* view,
                                 EditedProcess* process, CoreFiles* files)
    : trace_(trace), view_(view), process_(process), files_(files) {
  AddCommands();
  AddProcessCommands(trace, view, files, &commands_);
}

void SnapshotMonitor::AddCommands() {
  commands_.Add("snapshots", "",
                "all of them: number, time, thread, trigger, level/class/id, label, attributes",
                this, &SnapshotMonitor::Snapshots);
  commands_.Add("goto", "start | end | snapshot N | snapshot next | snapshot previous",
                "move there ('hindsight goto' also refreshes gdb)", this, &SnapshotMonitor::Jump);
  commands_.Add("when", "", "the present snapshot", this, &SnapshotMonitor::When);
  commands_.Add("threads", "", "the threads in this snapshot", this, &SnapshotMonitor::Threads);
  commands_.Add("info", "", "program and snapshots", this, &SnapshotMonitor::Info);
  commands_.Add("edits", "", "what was written to the copy of this snapshot", this,
                &SnapshotMonitor::Edits);
  commands_.Add("save", "edits FILE", "write these to FILE, for 'hindsight refine --edits=FILE'",
                this, &SnapshotMonitor::Save);
  // gdb's side of Hindsight asks.
  commands_.Add("bookmarks", "", "there are none in snapshots",
                [](const MonitorQuestion&) { return std::string("no bookmarks\n"); });
}

absl::StatusOr<std::string> SnapshotMonitor::Run(absl::string_view command, int32_t selected,
                                                 const std::atomic<bool>* interrupt) {
  return commands_.Execute(command, {.selected = selected, .interrupt = interrupt});
}

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
  return InfoText(*trace_, absl::StrCat(view_->snapshots().size(), " snapshots\n"));
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

}  // namespace hindsight
