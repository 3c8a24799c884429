#include "server/snapshots/snapshot_target.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {

absl::StatusOr<std::unique_ptr<SnapshotTarget>> SnapshotTarget::Open(const TraceReader* trace,
                                                                     CoreFiles* files) {
  std::vector<SnapshotInfo> snapshots = ListSnapshots(*trace);
  if (snapshots.empty()) {
    return absl::NotFoundError(absl::StrCat(trace->directory(), " has no snapshots"));
  }
  return std::unique_ptr<SnapshotTarget>(new SnapshotTarget(trace, std::move(snapshots), files));
}

RunStop SnapshotTarget::Arrive() {
  constexpr uint64_t kTriggerSignal = 6;
  // Stopped for no reason that the program knows of, unless a signal triggered it.
  RunStop stop = {.kind = StopKind::kSignal, .thread = view_.CurrentThread()};
  if (view_.here().trigger == kTriggerSignal) {
    const absl::StatusOr<std::string> siginfo = view_.SigInfo(stop.thread);
    if (siginfo.ok()) std::memcpy(&stop.signal, siginfo->data(), sizeof(stop.signal));
  }
  last_stop_ = stop;
  return stop;
}

ThreadRef SnapshotTarget::current_thread() {
  return Ref(process_.in_copy() ? process_.copy_thread() : view_.CurrentThread());
}

absl::StatusOr<const RegisterFile*> SnapshotTarget::RegistersOf(int32_t thread) {
  ASSIGN_OR_RETURN(registers_, process_.Registers(thread));
  return &registers_;
}

std::vector<std::string> SnapshotTarget::Watched(const RunRequest& request) {
  std::vector<std::string> values;
  for (const WatchpointSpec& watch : request.watchpoints) {
    std::string& value = values.emplace_back(watch.length, '\0');
    uint8_t* bytes = reinterpret_cast<uint8_t*>(value.data());
    if (!ReadAll(Ref(view_.CurrentThread()), watch.address, absl::MakeSpan(bytes, value.size()))) {
      value.clear();
    }
  }
  return values;
}

bool SnapshotTarget::AtEnd(Direction direction) const {
  const bool forward = direction == Direction::kForward;
  return view_.index() == (forward ? view_.snapshots().size() - 1 : 0);
}

RunStop SnapshotTarget::StopAtEnd(Direction direction) {
  const bool forward = direction == Direction::kForward;
  last_stop_ = {.kind = forward ? StopKind::kEnd : StopKind::kBegin,
                .thread = view_.CurrentThread()};
  absl::StrAppend(&text_, "hindsight: this is the ", forward ? "last" : "first", " snapshot\n");
  return last_stop_;
}

RunStop SnapshotTarget::MoveOne(Direction direction) {
  if (AtEnd(direction)) return StopAtEnd(direction);
  view_.GoTo(direction == Direction::kForward ? view_.index() + 1 : view_.index() - 1);
  const RunStop stop = Arrive();
  text_ = absl::StrCat("hindsight: snapshot ", SnapshotText(view_.here()), "\n");
  return stop;
}

std::optional<RunStop> SnapshotTarget::Changed(const RunRequest& request,
                                               const std::vector<std::string>& before,
                                               uint64_t left) {
  const std::vector<std::string> here = Watched(request);
  const auto [was, is] = std::mismatch(before.begin(), before.end(), here.begin());
  if (was == before.end()) return std::nullopt;
  const size_t index = static_cast<size_t>(was - before.begin());
  last_stop_ = {.kind = StopKind::kWatchpoint,
                .thread = view_.CurrentThread(),
                .address = request.watchpoints[index].address,
                .index = index,
                .watch = request.watchpoints[index].kind};
  absl::StrAppendFormat(&text_, "hindsight: memory at 0x%x changed between snapshots %d and %d\n",
                        last_stop_.address, std::min(left, view_.here().number),
                        std::max(left, view_.here().number));
  return last_stop_;
}

absl::StatusOr<RunStop> SnapshotTarget::Resume(RunRequest request) {
  if (process_.CopyRuns()) return process_.Run(request, &text_);
  process_.Discard();
  if (request.step && request.range_start != request.range_end) {
    return absl::FailedPreconditionError(
        "snapshots have no lines to step through; stepi, continue and reverse-continue go to the "
        "next and previous");
  }
  const bool one = request.step && !request.only_thread;
  for (;;) {
    const std::vector<std::string> before = Watched(request);
    const uint64_t left = view_.here().number;
    const RunStop stop = MoveOne(request.direction);
    if (view_.here().number == left) return stop;
    if (const auto changed = Changed(request, before, left)) return *changed;
    if (one) {
      last_stop_.kind = stop.signal == 0 ? StopKind::kStep : StopKind::kSignal;
      return last_stop_;
    }
    if (request.watchpoints.empty()) return stop;
    if (request.interrupted()) {
      last_stop_.kind = StopKind::kInterrupted;
      return last_stop_;
    }
  }
}

absl::Status SnapshotTarget::WriteRegister(ThreadRef thread, int number,
                                           absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  return process_.WriteRegister(thread.tid, number, bytes);
}

absl::Status SnapshotTarget::WriteMemory(ThreadRef thread, uint64_t address,
                                         absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  return process_.WriteMemory(thread.tid, address, bytes);
}

absl::StatusOr<std::string> SnapshotTarget::Monitor(const std::string& command, ThreadRef selected,
                                                    const std::atomic<bool>* interrupt,
                                                    bool* moved) {
  const size_t before = view_.index();
  absl::StatusOr<std::string> output = monitor_.Run(command, selected.tid, interrupt);
  *moved = view_.index() != before;
  if (*moved) {
    // At its beginning this line would pass for an error.
    if (output.ok() && process_.changed()) *output += "what was written is gone\n";
    process_.Discard();
    Arrive();
  }
  return output;
}

absl::Status SnapshotTarget::GoTo(const std::string& where, const std::atomic<bool>*) {
  RETURN_IF_ERROR(monitor_.GoTo(where));
  process_.Discard();
  Arrive();
  return absl::OkStatus();
}

}  // namespace hindsight
