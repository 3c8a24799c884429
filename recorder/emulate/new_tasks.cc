#include "recorder/emulate/new_tasks.h"

#include <sys/wait.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

std::string RootOf(pid_t task) { return absl::StrCat("/proc/", task, "/root"); }

// What is a process's own in its manifest.
void Describe(pid_t process, bool with_environment, Manifest* manifest) {
  manifest->pid = process;
  manifest->arguments = CommandLine(process);
  if (with_environment) manifest->environment = Environment(process);
  manifest->working_directory = WorkingDirectory(process);
}

}  // namespace

absl::Status NewTasks::Record(pid_t process, absl::Span<const StoppedThread> stopped) {
  RecordingSession& session = engine_->session();
  std::vector<StoppedThread> threads(stopped.begin(), stopped.end());
  RETURN_IF_ERROR(SettleThreads(process, absl::MakeSpan(threads)));
  engine_->session().foreign_mappings().Forget();
  Manifest manifest = session.manifest();
  Describe(process, session.options().store_environment, &manifest);
  manifest.program = ExecutablePath(process);
  manifest.auxv = AuxiliaryVector(process);
  const pid_t first = threads.front().thread;
  absl::StatusOr<ProcessLog*> log = session.Open(std::move(manifest), nullptr, RootOf(first));
  if (!log.ok()) {
    DetachStopped(process, threads);
    return log.status();
  }
  auto recorded = std::make_unique<RecordedProcess>(engine_, *log, Tracee::Adopt(process, first));
  for (const StoppedThread& thread : absl::MakeSpan(threads).subspan(1)) {
    recorded->AddThread(Tracee::Adopt(process, thread.thread), 0);
  }
  Begin(engine_->tasks().AddProcess(std::move(recorded)), threads);
  return session.status();
}

absl::Status NewTasks::RecordAgain(RecordedProcess* process,
                                   absl::Span<const StoppedThread> stopped) {
  std::vector<StoppedThread> threads(stopped.begin(), stopped.end());
  RETURN_IF_ERROR(SettleThreads(process->pid(), absl::MakeSpan(threads)));
  engine_->session().foreign_mappings().Forget();
  RETURN_IF_ERROR(process->ResumeRecording(threads));
  Begin(process, threads);
  return engine_->session().status();
}

void NewTasks::Begin(RecordedProcess* process, absl::Span<const StoppedThread> threads) {
  for (const StoppedThread& thread : threads) {
    ThreadEngine* engine = process->Find(thread.thread);
    engine_->tasks().AddThread(engine);
    engine->StartWithoutTurn();
    if (thread.group_stop != 0) engine->OnGroupStop();
  }
}

// The first stop of a task that is traced from birth: it comes at once.
void NewTasks::AwaitBirth(pid_t task) {
  if (early_.erase(task) > 0) return;
  int status;
  while (waitpid(task, &status, __WALL) < 0 && errno == EINTR) {
  }
}

NewTask NewTasks::OnBirth(ThreadEngine* parent, RecordedProcess* process, const TraceeStop& stop,
                          uint64_t parent_count) {
  const RecordOptions& options = engine_->session().options();
  AwaitBirth(stop.task);
  NewTask made = {.process = ProcessOf(stop.task)};
  if (made.process == 0) return made;  // killed already
  made.is_thread = made.process == process->pid();
  if (made.is_thread) {
    made.recorded = true;
    ThreadEngine* const engine =
        process->AddThread(Tracee::Adopt(made.process, stop.task), parent->thread());
    engine->affinity().TakeOver(parent->affinity());
    engine_->tasks().AddThread(engine);
    return made;
  }
  if (options.children == ChildPolicy::kOnly && !engine_->session().part().Includes(made.process)) {
    const StoppedThread first = {.thread = stop.task};
    parent->affinity().Free(stop.task);
    engine_->native_runs().Run(made.process, {&first, 1});
    return made;
  }
  made.recorded = options.children != ChildPolicy::kNone;
  if (!made.recorded) {
    RunAlone(parent, process, stop.task);
    return made;
  }
  engine_->session().Keep(MakeProcess(parent, process, stop, parent_count));
  if (engine_->tasks().Find(stop.task) == nullptr) {  // its trace could not be made
    made.recorded = false;
    RunAlone(parent, process, stop.task);
  }
  return made;
}

void NewTasks::LetGo(ThreadEngine* parent, RecordedProcess* process, const TraceeStop& stop) {
  AwaitBirth(stop.task);
  RunAlone(parent, process, stop.task);
}

void NewTasks::RunAlone(ThreadEngine* parent, RecordedProcess* process, pid_t task) {
  engine_->session().NoteUnrecorded();
  parent->affinity().Free(task);
  LetChildGo(task, process->pid(), engine_->session().options().attach_pid == 0);
}

absl::Status NewTasks::MakeProcess(ThreadEngine* parent, RecordedProcess* process,
                                   const TraceeStop& stop, uint64_t parent_count) {
  RecordingSession& session = engine_->session();
  const pid_t pid = ProcessOf(stop.task);
  Manifest manifest = process->log().manifest();
  Describe(pid, session.options().store_environment, &manifest);
  manifest.program = process->image().program();
  manifest.parent_pid = process->pid();
  manifest.parent_thread = parent->thread();
  manifest.parent_count = parent_count;
  manifest.parent_sequence = session.sequence()->last;
  manifest.start_kind = "fork";
  ASSIGN_OR_RETURN(ProcessLog * log,
                   session.Open(std::move(manifest), &process->log(), RootOf(stop.task)));
  auto child = std::make_unique<RecordedProcess>(engine_, log, Tracee::Adopt(pid, stop.task));
  // If it is not known, they are taken to share it: memory is then compared more often than needed.
  if (SharesMemory(parent->thread(), pid, /*otherwise=*/true)) {
    child->sharing().NoteSharedWithProcess();
    process->sharing().NoteSharedWithProcess();
    // The thread that made it by vfork sleeps until it has memory of its own.
    if (!stop.vfork) process->sharing().NoteLent();
    if (stop.vfork) child->sharing().NoteBorrowed();
    if (!stop.vfork || process->sharing().many_threads()) child->sharing().NoteLent();
  }
  ThreadEngine* const first = child->threads().front().get();
  engine_->tasks().AddThread(first);
  first->affinity().TakeOver(parent->affinity());
  engine_->tasks().AddProcess(std::move(child));
  return session.status();
}

}  // namespace hindsight
