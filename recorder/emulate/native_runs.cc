#include "recorder/emulate/native_runs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "recorder/process/process_facts.h"
#include "recorder/ptrace/attach.h"

namespace hindsight {

void DetachStopped(pid_t process, absl::Span<const StoppedThread> threads) {
  std::vector<ThreadToDetach> detach;
  for (const StoppedThread& thread : threads) detach.push_back({thread.thread});
  (void)DetachFromProcess(process, detach, {});
}

void NativeRuns::Run(pid_t process, absl::Span<const StoppedThread> threads) {
  auto places = [this, process] { return part_->StartPlaces(process); };
  const bool guarded = options_.attach_pid != 0;
  runs_.push_back({process, std::make_unique<BreakpointRun>(process, std::move(places), guarded)});
  client_->OnUnrecorded();
  runs_.back().run->Start(threads);
}

std::vector<pid_t> NativeRuns::processes() const {
  std::vector<pid_t> processes;
  for (const NativeRun& native : runs_) processes.push_back(native.process);
  return processes;
}

bool NativeRuns::OnStatus(pid_t thread, int wait_status) {
  if (runs_.empty()) return false;
  const pid_t process = ProcessOf(thread);
  auto native = std::find_if(runs_.begin(), runs_.end(), [&](const NativeRun& candidate) {
    return candidate.process == thread || candidate.process == process;
  });
  // A child whose birth has not been reported yet belongs to its parent's run.
  if (native == runs_.end()) {
    native = std::find_if(runs_.begin(), runs_.end(),
                          [&](const NativeRun& candidate) { return candidate.run->Owns(thread); });
  }
  if (native == runs_.end()) return false;
  if (std::optional<NativeEvent> event = native->run->OnStop(thread, wait_status)) {
    OnEvent(native, *event);
  }
  return true;
}

void NativeRuns::OnEvent(Iterator native, const NativeEvent& event) {
  const pid_t process = native->process;
  switch (event.kind) {
    case NativeEventKind::kReached:
      Reach(native);
      break;
    case NativeEventKind::kStopped:
      native->stopped = true;
      break;
    case NativeEventKind::kExec:
      if (part_->Includes(process)) {
        Reach(native);
      } else {
        native->run->Start(native->run->threads());
      }
      break;
    case NativeEventKind::kForked:
      OnFork(process, event.child, event.after_exec);
      break;
    case NativeEventKind::kExited:
      client_->OnEnded(process, event.wait_status);
      runs_.erase(native);
      break;
  }
}

void NativeRuns::Reach(Iterator native) {
  NativeRun run = std::move(*native);
  runs_.erase(native);
  client_->OnReached(run.process, run.run->threads());
}

void NativeRuns::OnFork(pid_t parent, pid_t child, bool after_exec) {
  const StoppedThread first = {.thread = child};
  if (options_.children == ChildPolicy::kNone) {
    LetChildGo(child, parent, options_.attach_pid == 0);
  } else if (after_exec && part_->Includes(child)) {
    client_->OnReached(child, {&first, 1});
  } else {
    Run(child, {&first, 1});
  }
}

void NativeRuns::Tick() {
  for (auto it = runs_.begin(); it != runs_.end();) {
    const auto next = std::next(it);
    if (std::optional<NativeEvent> event = it->run->OnTick()) OnEvent(it, *event);
    it = next;
  }
}

void NativeRuns::RequestStops() {
  for (NativeRun& native : runs_) native.run->RequestStop();
}

bool NativeRuns::all_stopped() const {
  return std::all_of(runs_.begin(), runs_.end(),
                     [](const NativeRun& native) { return native.stopped; });
}

void NativeRuns::Detach() {
  for (const NativeRun& native : runs_) DetachStopped(native.process, native.run->threads());
  runs_.clear();
}

}  // namespace hindsight
