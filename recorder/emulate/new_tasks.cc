// Recording: threads and processes made by recorded ones.

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <utility>

#include "base/status_macros.h"
#include "recorder/emulate/recording.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {

// The first stop of a task that is traced from birth: it comes at once.
void Recording::AwaitBirth(pid_t task) {
  if (early_.erase(task) > 0) return;
  int status;
  while (waitpid(task, &status, __WALL) < 0 && errno == EINTR) {
  }
}

Recording::NewTask Recording::OnNewTask(ThreadEngine* parent, RecordedProcess* process,
                                        const TraceeStop& stop, uint64_t parent_count) {
  AwaitBirth(stop.task);
  NewTask made = {.process = ProcessOf(stop.task)};
  if (made.process == 0) return made;  // killed already
  made.is_thread = made.process == process->pid();
  if (made.is_thread) {
    made.recorded = true;
    ThreadEngine* const engine =
        process->AddThread(Tracee::Adopt(made.process, stop.task), parent->thread());
    engine->affinity().TakeOver(parent->affinity());
    tasks_[stop.task] = engine;
    return made;
  }
  if (options_.children == ChildPolicy::kOnly && !ShallRecord(made.process)) {
    const NativeThread first = {.thread = stop.task};
    parent->affinity().Free(stop.task);
    RunNatively(made.process, {&first, 1});
    return made;
  }
  made.recorded = options_.children != ChildPolicy::kNone;
  if (!made.recorded) {
    NoteUnrecorded();
    parent->affinity().Free(stop.task);
    LetChildGo(stop.task, process->pid(), options_.attach_pid == 0);
    return made;
  }
  Keep(MakeProcess(parent, process, stop, parent_count));
  if (Find(stop.task) == nullptr) {  // its trace could not be made
    made.recorded = false;
    LetChildGo(stop.task, process->pid(), options_.attach_pid == 0);
  }
  return made;
}

absl::Status Recording::MakeProcess(ThreadEngine* parent, RecordedProcess* process,
                                    const TraceeStop& stop, uint64_t parent_count) {
  const pid_t pid = ProcessOf(stop.task);
  Manifest manifest = process->manifest();
  manifest.uuid.clear();
  manifest.pid = pid;
  manifest.program = process->program();
  manifest.arguments = CommandLine(pid);
  if (options_.store_environment) manifest.environment = Environment(pid);
  manifest.working_directory = WorkingDirectory(pid);
  manifest.parent_pid = process->pid();
  manifest.parent_thread = parent->thread();
  manifest.parent_count = parent_count;
  manifest.parent_sequence = sequence_.last;
  manifest.start_kind = "fork";
  ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer, process->writer()->CreateChild(manifest));
  std::unique_ptr<Tracee> tracee = Tracee::Adopt(pid, stop.task);
  auto child = std::make_unique<RecordedProcess>(this, std::move(writer), std::move(manifest),
                                                 std::move(tracee));
  // Where that is not told, looking at memory more often than needed is all it costs.
  if (SharesMemory(parent->thread(), pid, /*otherwise=*/true)) {
    child->set_shares_memory();
    process->set_shares_memory();
    // The thread that made it by vfork sleeps until it has memory of its own.
    if (!stop.vfork) process->set_lends_memory();
    if (stop.vfork) child->set_borrows_memory();
    if (!stop.vfork || process->many_threads()) child->set_lends_memory();
  }
  tasks_[stop.task] = child->threads().front().get();
  tasks_[stop.task]->affinity().TakeOver(parent->affinity());
  processes_.push_back(std::move(child));
  ++result_.processes;
  return status_;
}

}  // namespace hindsight
