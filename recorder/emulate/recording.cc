#include "recorder/emulate/recording.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {
namespace {

// What is older than this reaches the disk: what a killed recorder may lose.
constexpr std::chrono::milliseconds kFlushInterval(900);
constexpr std::chrono::milliseconds kProgressInterval(250);

// Processes that end so soon after the program are recorded to their end: helpers whose pipe or
// parent is gone, the other end of a pipeline.
constexpr std::chrono::milliseconds kGraceAfterProgram(200);

// Cpus kept for threads to come.
constexpr size_t kSpareCpus = 8;

}  // namespace

Recording::Recording(const RecordOptions& options, MemoryModel model)
    : options_(options),
      model_(model),
      scheduler_(options.seed, options.chaos),
      stop_(options.attach_pid != 0 ? StopRequest::Program::kAttached
                                    : StopRequest::Program::kLaunched) {
  start_time_ = last_flush_ = last_progress_ = Clock::now();
  result_.threads = 0;
  if (options.progress) terminal_use_ = TerminalUse(STDERR_FILENO, options.at_line_start);
  signal(SIGXFSZ, SIG_IGN);  // a trace that may not grow any more is an error like a full disk
}

// A recording that could not begin leaves nothing behind.
Recording::~Recording() {
  for (const auto& [thread, engine] : tasks_) kill(thread, SIGKILL);
  for (const auto& [thread, engine] : tasks_) waitpid(thread, nullptr, __WALL);
}

absl::Status Recording::SetTrace(std::unique_ptr<TraceWriter> writer, Manifest manifest) {
  writer_ = std::move(writer);
  manifest_ = std::move(manifest);
  return SetPlaces();
}

uint64_t Recording::NowNs() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_time_).count();
}

absl::StatusOr<RecordResult> Recording::Run() {
  if (options_.progress) ShowProgress();
  Loop();
  if (end_wanted()) LetGo();
  for (const auto& process : processes_) Keep(process->Finish());
  if (!root_exited_ && options_.attach_pid == 0) WaitForRoot();
  // Whatever it was, it was not about starting the program.
  if (failed()) return absl::AbortedError(status_.message());
  if (root_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "nothing was recorded: ", start_at_.has_value()
                                      ? absl::StrCat(options_.start_at, " was not reached")
                                      : absl::StrCat(options_.only_program, " was not run")));
  }
  result_.trace_bytes = root_->writer()->bytes_written();
  result_.events = sequence_.last;
  result_.seconds = static_cast<double>(NowNs()) / 1e9;
  result_.at_line_start = terminal_use_.at_line_start();
  return result_;
}

void Recording::Loop() {
  while (!(tasks_.empty() && native_.empty()) && !end_wanted()) {
    TakeStops(/*block=*/false);
    if (!RunReady() && !end_wanted()) TakeStops(/*block=*/true);
    Reap();
    KeepHouse();
  }
  Reap();
}

// Gives a turn to a thread that can use one.
bool Recording::RunChosen() {
  std::vector<ThreadEngine*> ready;
  std::vector<pid_t> threads;
  for (const auto& process : processes_) {
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
bool Recording::RunReady() {
  if (scheduler_.chaos()) return RunChosen();
  std::vector<std::pair<RecordedProcess*, pid_t>> ready;
  for (const auto& process : processes_) {
    for (const auto& engine : process->threads()) {
      if (engine->wants_turn()) ready.emplace_back(process.get(), engine->thread());
    }
  }
  bool some = false;
  for (const auto& [process, thread] : ready) {
    if (end_wanted()) return true;
    // An earlier turn may have ended or stopped it.
    ThreadEngine* engine = process->Find(thread);
    if (engine == nullptr || !engine->wants_turn()) continue;
    some = true;
    engine->RunTurn();
    TakeStops(/*block=*/false);
  }
  return some;
}

bool Recording::OthersWait(const ThreadEngine* engine) const {
  for (const auto& process : processes_) {
    for (const auto& other : process->threads()) {
      if (other.get() != engine && other->wants_turn()) return true;
    }
  }
  siginfo_t next = {};
  return waitid(P_ALL, 0, &next, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0 ||
         next.si_pid != 0;
}

// Takes what waitpid tells of any thread; with `block`, waits for at least one thing.
bool Recording::TakeStops(bool block) {
  bool some = false;
  while (true) {
    int status;
    const pid_t thread = waitpid(-1, &status, __WALL | (block && !some ? 0 : WNOHANG));
    if (thread < 0 && errno == EINTR) {
      KeepHouse();
      TickNatives();
      if (end_wanted()) return some;
      continue;
    }
    if (thread <= 0) {
      // No children at all though threads are waited for: they vanished with an exec or their
      // tracer.
      if (thread < 0 && block && errno == ECHILD) {
        tasks_.clear();
        native_.clear();
      }
      return some;
    }
    some = true;
    OnStatus(thread, status);
  }
}

void Recording::OnStatus(pid_t thread, int status) {
  const WaitStatus decoded = WaitStatus::Decode(status);
  const auto it = tasks_.find(thread);
  if (it == tasks_.end()) {
    if (OnNativeStatus(thread, status)) return;
    if (!decoded.stopped() && thread == root_pid_) {
      NoteRootExit(status);
    } else if (decoded.stopped()) {
      early_[thread] = status;
    }
    return;
  }
  ThreadEngine* engine = it->second;
  if (decoded.is_exec() && OnExec(engine, status)) return;
  if (!decoded.stopped()) {
    engine->OnExit(status);
    return;
  }
  engine->TakeStatus(status);
}

void Recording::TakeExits(pid_t waiting) {
  std::vector<pid_t> others;
  for (const auto& [thread, engine] : tasks_) {
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
bool Recording::OnExec(ThreadEngine* engine, int status) {
  const pid_t former = TaskOfEvent(engine->thread());
  if (former == engine->thread()) return false;
  engine->TakeOverExec(Find(former));
  engine->TakeStatus(status);
  return true;
}

ThreadEngine* Recording::Find(pid_t thread) const {
  const auto it = tasks_.find(thread);
  return it == tasks_.end() ? nullptr : it->second;
}

void Recording::LetGoOf(pid_t thread, const std::string& reason) {
  for (const auto& process : processes_) {
    if (process->Find(thread) != nullptr) process->LetGo(reason);
  }
}

bool Recording::IsRecorded(pid_t process) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const auto& p) { return p->pid() == process && !p->ended(); }) &&
         std::none_of(native_.begin(), native_.end(),
                      [&](const NativeProcess& native) { return native.process == process; });
}

void Recording::Reap() {
  for (auto it = processes_.begin(); it != processes_.end();) {
    RecordedProcess* process = it->get();
    process->RemoveEnded();
    if (!process->ended() || !process->threads().empty()) {
      ++it;
      continue;
    }
    if (std::exchange(process->counted, true)) {
      ++it;
      continue;
    }
    result_.instructions += process->instructions;
    result_.threads += process->threads_made;
    result_.light_keyframes += process->segments;
    result_.full_keyframes += process->full_keyframes();
    if (process == root_) {
      result_.end_reason = process->end_reason();
      if (process->exit_status() != -1 && process->pid() == root_pid_) {
        NoteRootExit(process->exit_status());
      }
      ++it;  // its writer knows the size of the whole recording
      continue;
    }
    Keep(process->Finish());
    it = processes_.erase(it);
  }
}

void Recording::NoteBlockCheck(const std::string& difference) {
  ++result_.blocks_checked;
  if (difference.empty()) return;
  if (result_.blocks_differing++ == 0) result_.first_difference = difference;
}

void Recording::NoteRootExit(int status) {
  if (!root_exited_) root_exit_time_ = Clock::now();
  root_exited_ = true;
  result_.wait_status = status;
  // Nobody else is left whose affair a Ctrl-C could be.
  stop_.HeedInterrupts();
}

// Those that outlive the program run on, recorded or not.
bool Recording::OutlivesProgram() const {
  return !options_.wait_for_all && root_exited_ && !(tasks_.empty() && native_.empty()) &&
         Clock::now() - root_exit_time_ >= kGraceAfterProgram;
}

absl::StatusOr<std::unique_ptr<Cpu>> Recording::TakeCpu(Pager* pager) {
  std::unique_ptr<Cpu> cpu;
  if (spare_cpus_.empty()) {
    ASSIGN_OR_RETURN(cpu, Cpu::Create(pager));
  } else {
    cpu = std::move(spare_cpus_.back());
    spare_cpus_.pop_back();
    cpu->Recycle(pager);
  }
  cpu->CheckAlignment();
  return cpu;
}

void Recording::GiveBack(std::unique_ptr<Cpu> cpu) {
  if (spare_cpus_.size() < kSpareCpus) spare_cpus_.push_back(std::move(cpu));
}

bool Recording::flush_due() const { return Clock::now() - last_flush_ >= kFlushInterval; }

void Recording::KeepHouse() {
  const Clock::time_point now = Clock::now();
  CheckLimits();
  if (binds_threads()) host_affinity_.Tick(NowNs());
  if (now - last_flush_ >= kFlushInterval) {
    last_flush_ = now;
    for (const auto& process : processes_) Keep(process->writer()->Flush());
  }
  if (options_.progress && now - last_progress_ >= kProgressInterval) {
    last_progress_ = now;
    ShowProgress();
  }
}

void Recording::ShowProgress() {
  // Where it is not shown on a terminal, nothing disturbs it.
  if (!terminal_use_.watches() || terminal_use_.MayShow(Clock::now())) {
    options_.progress(Progress());
  }
}

void Recording::BeforeCall(pid_t thread, int64_t number, const uint64_t* arguments,
                           const ReadMemory& read) {
  if (terminal_use_.BeforeCall(thread, number, arguments, read)) options_.hide_progress();
}

void Recording::AfterCall(pid_t thread, int64_t number, const uint64_t* arguments, int64_t result,
                          const ReadMemory& read) {
  terminal_use_.AfterCall(thread, number, arguments, result, read, Clock::now());
}

void Recording::NoteUnrecorded() {
  foreign_mappings_.Forget();
  if (!terminal_use_.watches()) return;
  terminal_use_.NoteUnwatched();
  options_.hide_progress();
}

void Recording::CheckLimits() {
  if (!end_reason_.empty()) return;
  if (stop_.requested()) {
    end_reason_ = absl::StrCat("recording was stopped by signal ", stop_.signal(), " (",
                               strsignal(stop_.signal()), ")");
  } else if (options_.timeout_seconds > 0 && NowNs() >= options_.timeout_seconds * 1e9) {
    end_reason_ = absl::StrFormat("the program had not ended after %g seconds and was killed",
                                  options_.timeout_seconds);
    result_.timed_out = true;
  } else if (options_.max_seconds > 0 && NowNs() >= options_.max_seconds * 1e9) {
    end_reason_ = absl::StrFormat("recording was to last %g seconds", options_.max_seconds);
  } else if (options_.max_trace_bytes != 0 && root_ != nullptr &&
             root_->writer()->bytes_written() >= options_.max_trace_bytes) {
    end_reason_ = absl::StrCat("the trace has reached ", options_.max_trace_bytes, " bytes");
  } else if (OutlivesProgram()) {
    end_reason_ = "the program has ended";
    for (const auto& process : processes_) result_.processes_left += !process->ended();
    result_.processes_left += native_.size();
  }
}

RecordProgress Recording::Progress() const {
  uint64_t instructions = result_.instructions;
  for (const auto& process : processes_) {
    if (!process->counted) instructions += process->Instructions();
  }
  return {.instructions = instructions,
          .events = sequence_.last,
          .trace_bytes = root_ == nullptr ? 0 : root_->writer()->bytes_written(),
          .seconds = static_cast<double>(NowNs()) / 1e9};
}

// Recording must end: everybody runs on alone, or is killed.
void Recording::LetGo() {
  NoteUnrecorded();
  std::vector<pid_t> running;
  for (const auto& process : processes_) {
    if (!process->ended()) running.push_back(process->pid());
    process->LetGo(failed() ? "" : end_reason_);
  }
  for (const NativeProcess& native : native_) running.push_back(native.process);
  LetNativesGo();
  // Not before: its registers and memory are brought up to date.
  if (result_.timed_out) {
    for (const pid_t process : running) kill(process, SIGKILL);
    if (!root_exited_) kill(root_pid_, SIGKILL);
  }
  if (options_.attach_pid == 0 && !root_exited_ && stop_.signal_for_program() != 0) {
    kill(root_pid_, stop_.signal_for_program());
  }
  tasks_.clear();
  Reap();
}

// Everybody runs on alone; but a thread that ended before it could be let go of is still ours to
// reap, and its process cannot end before.
void Recording::WaitForRoot() {
  while (!root_exited_) {
    int status;
    const pid_t pid = waitpid(-1, &status, __WALL);
    if (pid < 0 && errno != EINTR) return;
    if (pid < 0) continue;
    if (WaitStatus::Decode(status).stopped()) {
      Detach(pid);
    } else if (pid == root_pid_) {
      NoteRootExit(status);
    }
  }
}

}  // namespace hindsight
