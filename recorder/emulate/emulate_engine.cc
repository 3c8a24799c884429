#include "recorder/emulate/emulate_engine.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {

EmulateEngine::EmulateEngine(RecordingSession* session)
    : session_(session),
      scheduler_(session->options().seed, session->options().chaos),
      native_runs_(session->options(), &session->part(), this),
      new_tasks_(this) {
  session->foreign_mappings().set_recorded(
      [this](pid_t process) { return tasks_.IsRecorded(process); });
}

// A recording that could not begin leaves no process.
EmulateEngine::~EmulateEngine() {
  session_->foreign_mappings().set_recorded([](pid_t) { return false; });
  for (const auto& [thread, engine] : tasks_.threads()) kill(thread, SIGKILL);
  for (const auto& [thread, engine] : tasks_.threads()) waitpid(thread, nullptr, __WALL);
}

absl::Status EmulateEngine::Record(pid_t process, absl::Span<const StoppedThread> threads) {
  const absl::Status begun = Begin(process, threads);
  if (!begun.ok() && !session_->attached()) return begun;
  session_->Keep(begun);  // a process that was attached to is detached below
  Tick();
  Loop();
  if (session_->end_wanted()) LetGo();
  for (const auto& open : tasks_.processes()) open->AddUpThreads();
  session_->FinishTraces();
  if (!session_->program_exited() && !session_->attached()) WaitForProgram();
  return absl::OkStatus();
}

absl::Status EmulateEngine::Begin(pid_t process, absl::Span<const StoppedThread> threads) {
  session_->SetProgram(process);
  if (session_->part().Includes(process)) return new_tasks_.Record(process, threads);
  native_runs_.Run(process, threads);
  return absl::OkStatus();
}

void EmulateEngine::Loop() {
  while (!(tasks_.threads().empty() && native_runs_.empty()) && !session_->end_wanted()) {
    TakeStops(/*block=*/false);
    if (!RunReady() && !session_->end_wanted()) TakeStops(/*block=*/true);
    RemoveEnded();
    Tick();
  }
  RemoveEnded();
}

// Gives a turn to a thread that can use one.
bool EmulateEngine::RunChosen() {
  std::vector<ThreadEngine*> ready;
  std::vector<pid_t> threads;
  for (const auto& process : tasks_.processes()) {
    for (const auto& engine : process->threads()) {
      if (!engine->wants_turn()) continue;
      ready.push_back(engine.get());
      threads.push_back(engine->thread());
    }
  }
  if (ready.empty()) return false;
  ready[scheduler_.Choose(threads)]->RunTurn();
  return true;
}

// Gives a turn to each thread that can use one.
bool EmulateEngine::RunReady() {
  if (scheduler_.chaos()) return RunChosen();
  std::vector<std::pair<RecordedProcess*, pid_t>> ready;
  for (const auto& process : tasks_.processes()) {
    for (const auto& engine : process->threads()) {
      if (engine->wants_turn()) ready.emplace_back(process.get(), engine->thread());
    }
  }
  bool some = false;
  for (const auto& [process, thread] : ready) {
    if (session_->end_wanted()) return true;
    // An earlier turn may have ended or stopped it.
    ThreadEngine* engine = process->Find(thread);
    if (engine == nullptr || !engine->wants_turn()) continue;
    some = true;
    engine->RunTurn();
    TakeStops(/*block=*/false);
  }
  return some;
}

bool EmulateEngine::OthersWait(const ThreadEngine* engine) const {
  for (const auto& process : tasks_.processes()) {
    for (const auto& other : process->threads()) {
      if (other.get() != engine && other->wants_turn()) return true;
    }
  }
  siginfo_t next = {};
  return waitid(P_ALL, 0, &next, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0 ||
         next.si_pid != 0;
}

// Handles what waitpid reports of any thread; with `block`, waits for at least one report.
bool EmulateEngine::TakeStops(bool block) {
  bool some = false;
  while (true) {
    int status;
    const bool waits = block && !some;
    if (const auto end_ns = call_ends_.next_ns(); waits && end_ns.has_value()) {
      session_->WakeAt(*end_ns);
    }
    const pid_t thread = waitpid(-1, &status, __WALL | (waits ? 0 : WNOHANG));
    if (thread < 0 && errno == EINTR) {
      Tick();
      native_runs_.Tick();
      if (block) TakeSnapshotsDue();
      if (session_->end_wanted()) return some;
      continue;
    }
    if (thread <= 0) {
      // There are no children, though threads are waited for: they have vanished, as in an exec.
      if (thread < 0 && block && errno == ECHILD) {
        tasks_.ClearThreads();
        native_runs_.Clear();
      }
      return some;
    }
    some = true;
    OnStatus(thread, status);
  }
}

// Of processes all of whose threads wait. Requires: nobody has a turn.
void EmulateEngine::TakeSnapshotsDue() {
  for (const auto& process : tasks_.processes()) {
    if (process->ended() || process->paused()) continue;
    for (const auto& engine : process->threads()) {
      if (!engine->begun() || engine->state() != ThreadEngine::State::kWaiting) continue;
      engine->SnapshotIfDue();
      break;
    }
  }
}

void EmulateEngine::OnStatus(pid_t thread, int status) {
  const WaitStatus decoded = WaitStatus::Decode(status);
  ThreadEngine* const engine = tasks_.Find(thread);
  if (engine == nullptr) {
    if (native_runs_.OnStatus(thread, status)) return;
    if (tasks_.TakeToDetach(thread) && decoded.stopped()) {
      Detach(thread);
      return;
    }
    if (!decoded.stopped() && thread == session_->program()) {
      session_->NoteProgramExit(status);
    } else if (decoded.stopped()) {
      new_tasks_.NoteEarlyStop(thread, status);
    }
    return;
  }
  if (decoded.is_exec() && OnExec(engine, status)) return;
  if (!decoded.stopped()) {
    engine->OnExit(status);
    return;
  }
  engine->TakeStatus(status);
}

void EmulateEngine::TakeExits(pid_t waiting) {
  std::vector<pid_t> others;
  for (const auto& [thread, engine] : tasks_.threads()) {
    if (thread != waiting) others.push_back(thread);
  }
  for (const pid_t thread : others) {
    siginfo_t ended = {};
    if (waitid(P_PID, thread, &ended, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0) continue;
    int status;
    if (ended.si_pid == 0 || waitpid(thread, &status, __WALL | WNOHANG) != thread) continue;
    OnStatus(thread, status);
  }
}

// True if another thread than `engine` has executed a program, and taken its place.
bool EmulateEngine::OnExec(ThreadEngine* engine, int status) {
  const pid_t former = TaskOfEvent(engine->thread());
  if (former == engine->thread()) return false;
  engine->TakeOverExec(tasks_.Find(former));
  engine->TakeStatus(status);
  return true;
}

void EmulateEngine::OnReached(pid_t process, absl::Span<const StoppedThread> threads) {
  RecordedProcess* const paused = tasks_.FindPaused(process);
  session_->Keep(paused != nullptr ? new_tasks_.RecordAgain(paused, threads)
                                   : new_tasks_.Record(process, threads));
}

void EmulateEngine::OnEnded(pid_t process, int wait_status) {
  if (process == session_->program()) session_->NoteProgramExit(wait_status);
  if (RecordedProcess* const paused = tasks_.FindPaused(process)) {
    paused->NoteNativeExit(wait_status);
  }
}

void EmulateEngine::RemoveEnded() {
  std::vector<ProcessLog*> ended;
  tasks_.RemoveEnded([&](RecordedProcess* process) { ended.push_back(&process->log()); });
  for (ProcessLog* const log : ended) {
    if (log->pid() == session_->program() && log->exit_status() != -1) {
      session_->NoteProgramExit(log->exit_status());
    }
    session_->Close(log);
  }
}

void EmulateEngine::EndCallsDue() {
  while (const std::optional<pid_t> thread = call_ends_.TakeDue(session_->NowNs())) {
    if (ThreadEngine* const engine = tasks_.Find(*thread)) engine->EndCallIfOver();
  }
}

void EmulateEngine::Tick() {
  session_->Tick(*this);
  EndCallsDue();
  if (binds_threads()) host_affinity_.Tick(session_->NowNs());
}

uint64_t EmulateEngine::open_instructions() const {
  uint64_t instructions = 0;
  for (const auto& process : tasks_.processes()) instructions += process->Instructions();
  return instructions;
}

uint64_t EmulateEngine::living_processes() const {
  uint64_t living = native_runs_.processes().size();
  for (const auto& process : tasks_.processes()) living += !process->ended() && !process->paused();
  return living;
}

// Recording must end: all processes run on alone, or are killed.
void EmulateEngine::LetGo() {
  session_->NoteUnrecorded();
  std::vector<pid_t> running = native_runs_.processes();
  for (const auto& process : tasks_.processes()) {
    if (!process->ended()) running.push_back(process->pid());
    process->LetGo(session_->failed() ? "" : session_->end_reason());
  }
  StopNativeRuns();
  // Only now: until here their registers and memory are brought up to date.
  if (session_->timed_out()) {
    for (const pid_t process : running) kill(process, SIGKILL);
    if (!session_->program_exited()) kill(session_->program(), SIGKILL);
  }
  const int signal = session_->signal_for_program();
  if (!session_->program_exited() && signal != 0) kill(session_->program(), signal);
  tasks_.ClearThreads();
  RemoveEnded();
}

void EmulateEngine::StopNativeRuns() {
  native_runs_.RequestStops();
  while (!native_runs_.all_stopped()) {
    int status;
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread > 0) {
      OnStatus(thread, status);
    } else if (errno != EINTR) {
      break;
    }
    native_runs_.Tick();
  }
  native_runs_.Detach();
}

// All run on alone; but a thread that ended before it was detached must be reaped here, and its
// process cannot end before that.
void EmulateEngine::WaitForProgram() {
  while (!session_->program_exited()) {
    int status;
    const pid_t pid = waitpid(-1, &status, __WALL);
    if (pid < 0 && errno != EINTR) return;
    if (pid < 0) continue;
    if (WaitStatus::Decode(status).stopped()) {
      Detach(pid);
    } else if (pid == session_->program()) {
      session_->NoteProgramExit(status);
    }
  }
}

}  // namespace hindsight
