// Recording: processes that run natively, before the part of them that is to be recorded.

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/emulate/recording.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/attach.h"

namespace hindsight {
namespace {

MemoryMap MapOf(pid_t process) {
  return MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
}

std::string RootOf(pid_t process) { return absl::StrCat("/proc/", process, "/root"); }

// Lets them run on alone.
void Detach(pid_t process, absl::Span<const NativeThread> threads) {
  std::vector<ThreadToDetach> detach;
  for (const NativeThread& thread : threads) detach.push_back({thread.thread});
  (void)DetachFromProcess(process, detach, {});
}

}  // namespace

absl::Status Recording::SetPlaces() {
  if (!options_.start_at.empty()) {
    ASSIGN_OR_RETURN(start_at_, ParseCodePlace(options_.start_at));
  }
  if (!options_.stop_at.empty()) {
    ASSIGN_OR_RETURN(stop_at_, ParseCodePlace(options_.stop_at));
  }
  return absl::OkStatus();
}

std::vector<uint64_t> Recording::StopPlaces(pid_t process, const AddressSpace& space) {
  if (!stop_at_.has_value()) return {};
  return symbols_.Find(*stop_at_, space.map(), RootOf(process));
}

bool Recording::ShallRecord(pid_t process) const {
  if (start_at_.has_value()) return false;
  if (options_.children != ChildPolicy::kOnly) return true;
  const std::string program = ExecutablePath(process);
  return program == options_.only_program ||
         absl::EndsWith(program, absl::StrCat("/", options_.only_program));
}

absl::Status Recording::Begin(pid_t process, absl::Span<const NativeThread> threads) {
  if (ShallRecord(process)) return Record(process, threads);
  if (root_pid_ == 0) root_pid_ = process;
  RunNatively(process, threads);
  return absl::OkStatus();
}

void Recording::RunNatively(pid_t process, absl::Span<const NativeThread> threads) {
  auto places = [this, process]() -> BreakpointRun::Places {
    if (!start_at_.has_value()) return {};
    const MemoryMap map = MapOf(process);
    return {symbols_.Find(*start_at_, map, RootOf(process)),
            symbols_.LinkerHooks(map, RootOf(process))};
  };
  const bool guarded = options_.attach_pid != 0;
  native_.push_back(
      {process, std::make_unique<BreakpointRun>(process, std::move(places), guarded), nullptr});
  NoteUnrecorded();
  native_.back().run->Start(threads);
}

void Recording::RunSuspended(RecordedProcess* process, absl::Span<const NativeThread> threads) {
  RunNatively(process->pid(), threads);
  native_.back().suspended = process;
}

absl::Status Recording::RecordAgain(RecordedProcess* process,
                                    absl::Span<const NativeThread> stopped) {
  std::vector<NativeThread> threads(stopped.begin(), stopped.end());
  RETURN_IF_ERROR(SettleThreads(process->pid(), absl::MakeSpan(threads)));
  foreign_mappings_.Forget();
  RETURN_IF_ERROR(process->ResumeRecording(threads));
  for (const NativeThread& thread : threads) {
    ThreadEngine* engine = process->Find(thread.thread);
    tasks_[thread.thread] = engine;
    engine->StartWithoutTurn();
    if (thread.group_stop != 0) engine->OnGroupStop();
  }
  return status_;
}

// The stopped process is recorded from here on. If it cannot be, it runs on alone.
absl::Status Recording::Record(pid_t process, absl::Span<const NativeThread> stopped) {
  std::vector<NativeThread> threads(stopped.begin(), stopped.end());
  RETURN_IF_ERROR(SettleThreads(process, absl::MakeSpan(threads)));
  foreign_mappings_.Forget();
  if (root_pid_ == 0) root_pid_ = process;
  Manifest manifest = manifest_;
  manifest.pid = process;
  manifest.program = ExecutablePath(process);
  manifest.arguments = CommandLine(process);
  if (options_.store_environment) manifest.environment = Environment(process);
  manifest.working_directory = WorkingDirectory(process);
  manifest.auxv = AuxiliaryVector(process);
  std::unique_ptr<TraceWriter> writer = std::move(writer_);
  if (writer == nullptr) {
    manifest.uuid.clear();
    absl::StatusOr<std::unique_ptr<TraceWriter>> made = root_->writer()->CreateChild(manifest);
    if (!made.ok()) {
      Detach(process, threads);
      return made.status();
    }
    writer = *std::move(made);
    ++result_.processes;
  }
  auto recorded = std::make_unique<RecordedProcess>(this, std::move(writer), std::move(manifest),
                                                    Tracee::Adopt(process, threads.front().thread));
  recorded->set_attached(options_.attach_pid != 0);
  for (const NativeThread& thread : absl::MakeSpan(threads).subspan(1)) {
    recorded->AddThread(Tracee::Adopt(process, thread.thread), 0);
  }
  if (root_ == nullptr) root_ = recorded.get();
  RecordedProcess* const made = processes_.emplace_back(std::move(recorded)).get();
  for (const NativeThread& thread : threads) {
    ThreadEngine* engine = made->Find(thread.thread);
    tasks_[thread.thread] = engine;
    engine->StartWithoutTurn();
    if (thread.group_stop != 0) engine->OnGroupStop();
  }
  return status_;
}

// True if the stop was of a process that runs natively.
bool Recording::OnNativeStatus(pid_t thread, int status) {
  if (native_.empty()) return false;
  const pid_t process = ProcessOf(thread);
  auto native = std::find_if(native_.begin(), native_.end(), [&](const NativeProcess& candidate) {
    return candidate.process == thread || candidate.process == process;
  });
  // A child of one of them that nobody has been told of yet is its parent's affair.
  if (native == native_.end()) {
    native = std::find_if(native_.begin(), native_.end(), [&](const NativeProcess& candidate) {
      return candidate.run->Owns(thread);
    });
  }
  if (native == native_.end()) return false;
  if (std::optional<NativeEvent> event = native->run->OnStop(thread, status)) {
    OnNativeEvent(native, *event);
  }
  return true;
}

void Recording::OnNativeEvent(std::list<NativeProcess>::iterator native, const NativeEvent& event) {
  const pid_t process = native->process;
  switch (event.kind) {
    case NativeEventKind::kReached:
      Keep(native->suspended != nullptr ? RecordAgain(native->suspended, native->run->threads())
                                        : Record(process, native->run->threads()));
      native_.erase(native);
      break;
    case NativeEventKind::kStopped:
      native->stopped = true;
      break;
    case NativeEventKind::kExec:
      if (ShallRecord(process)) {
        Keep(Record(process, native->run->threads()));
        native_.erase(native);
      } else {
        native->run->Start(native->run->threads());
      }
      break;
    case NativeEventKind::kForked:
      if (options_.children == ChildPolicy::kNone) {
        LetChildGo(event.child, process, options_.attach_pid == 0);
      } else if (event.after_exec && ShallRecord(event.child)) {
        const NativeThread first = {.thread = event.child};
        Keep(Record(event.child, {&first, 1}));
      } else {
        const NativeThread first = {.thread = event.child};
        RunNatively(event.child, {&first, 1});
      }
      break;
    case NativeEventKind::kExited:
      if (process == root_pid_) NoteRootExit(event.wait_status);
      if (native->suspended != nullptr) native->suspended->NoteNativeExit(event.wait_status);
      native_.erase(native);
      break;
  }
}

void Recording::TickNatives() {
  for (auto it = native_.begin(); it != native_.end();) {
    const auto next = std::next(it);
    if (std::optional<NativeEvent> event = it->run->OnTick()) OnNativeEvent(it, *event);
    it = next;
  }
}

// Takes the breakpoints out of the processes that run natively, and lets them run on alone.
void Recording::LetNativesGo() {
  for (NativeProcess& native : native_) native.run->RequestStop();
  const auto all_stopped = [this] {
    return std::all_of(native_.begin(), native_.end(),
                       [](const NativeProcess& native) { return native.stopped; });
  };
  while (!all_stopped()) {
    int status;
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread > 0) {
      OnStatus(thread, status);
    } else if (errno != EINTR) {
      break;
    }
    TickNatives();
  }
  for (const NativeProcess& native : native_) {
    Detach(native.process, native.run->threads());
  }
  native_.clear();
}

}  // namespace hindsight
