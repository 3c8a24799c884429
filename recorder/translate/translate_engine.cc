#include "recorder/translate/translate_engine.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "isa/memory_model.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/injection.h"

namespace hindsight {
namespace {

// A page costs some 12,000 bits: what keeps segments' beginnings well below half a bit for each
// instruction.
constexpr uint64_t kSegmentPerPage = 100'000;

// Between two looks at the ring, if there was nothing in it.
constexpr timespec kPause = {0, 200'000};

}  // namespace

std::string TranslateEngine::ReasonNotToRecord(const RecordOptions& options) {
  if (options.attach_pid != 0) return "attach to a process";
  if (options.cpu != CpuModel::kPortable) return "offer the host's own features (--cpu=host)";
  if (!options.start_at.empty() || !options.stop_at.empty()) return "record a part of a run";
  if (options.children == ChildPolicy::kOnly) return "choose processes by their program";
  if (options.wait_for_all) return "wait for processes that it does not record (--wait)";
  if (options.memory_model > MemoryModel::kFence) {
    return absl::StrCat("order instructions as ", MemoryModelName(options.memory_model), " does");
  }
  if (options.self_checks_per_million != 0) return "check blocks of instructions";
  return "";
}

absl::Status TranslateEngine::Record(pid_t process, absl::Span<const StoppedThread> threads) {
  session_->SetProgram(process);
  // What it does with the terminal is known only later.
  session_->NoteUnrecorded();
  RETURN_IF_ERROR(Begin(process, threads.front().thread));
  running_ = true;
  Loop(process);
  services_.StopAll();
  session_->FinishTraces();
  return absl::OkStatus();
}

absl::Status TranslateEngine::Begin(pid_t process, pid_t thread) {
  const RecordOptions& options = session_->options();
  ASSIGN_OR_RETURN(log_, session_->Open(session_->manifest(), nullptr,
                                        absl::StrCat("/proc/", process, "/root")));
  const std::unique_ptr<Tracee> tracee = Tracee::Adopt(process, thread);
  InjectionOptions injection = {
      .record = true,
      .order_instructions = options.memory_model == MemoryModel::kFence,
      .chaos_seed = options.chaos ? options.seed | 1 : 0,
      .segment_instructions = options.light_keyframe_interval,
      .segment_per_page = options.adapt_light_keyframes ? kSegmentPerPage : 0};
  const auto code = std::make_shared<ExecutedPages>();
  injection.prepare = [&](const MemoryFile& file) {
    recording_ = std::make_unique<TranslatedRecording>(session_, log_, file, code);
  };
  ASSIGN_OR_RETURN(MemoryFile file, Inject(injection, tracee.get()));
  const TranslationOptions translation = {.cpu = options.cpu,
                                          .flavour = Flavour::kRecord,
                                          .seed = options.seed,
                                          .executed_pages = code};
  service_ = services_.Start(std::make_unique<ProcessService>(
      process, std::move(file), translation,
      [this](std::unique_ptr<ProcessService> child) { services_.Start(std::move(child)); }));
  return absl::OkStatus();
}

void TranslateEngine::Loop(pid_t process) {
  while (running_) {
    int status;
    const pid_t waited = waitpid(process, &status, WNOHANG);
    if (waited == process && (WIFEXITED(status) || WIFSIGNALED(status))) {
      running_ = false;
      CheckBoot(status);
      if (recording_ != nullptr) {
        session_->Keep(recording_->Finish(status));
        ReportChildren();
        Report(recording_->ReasonLeft());
      }
      session_->NoteProgramExit(status);
      session_->Close(log_);
      return;
    }
    if (waited < 0 && errno != EINTR) return;
    Advance();
  }
}

// Logs what there is; if recording is to end, it does.
void TranslateEngine::Advance() {
  const absl::StatusOr<bool> some = recording_->Drain();
  if (!some.ok()) session_->Keep(some.status());
  ReportChildren();
  session_->Tick(*this);
  std::string reason = recording_->ReasonLeft();
  if (session_->end_wanted() && reason.empty()) {
    reason = session_->failed() ? "the trace could not be written" : session_->end_reason();
    if (session_->timed_out()) kill(session_->program(), SIGKILL);
    if (const int signal = session_->signal_for_program()) kill(session_->program(), signal);
  }
  if (!reason.empty()) {
    recording_->Abandon(reason);
    Report(reason);
  }
  if (!some.ok() || !*some) nanosleep(&kPause, nullptr);
}

// Who wants children to be recorded must know that they are not.
void TranslateEngine::ReportChildren() {
  if (!recording_->has_children() || session_->options().children == ChildPolicy::kNone ||
      std::exchange(reported_children_, true)) {
    return;
  }
  std::fprintf(stderr,
               "hindsight: the processes that %s (process %d) makes are not recorded: engine "
               "translate does not yet\n",
               Printable(log_->manifest().program).c_str(), log_->pid());
}

void TranslateEngine::Report(const std::string& reason) {
  if (reason.empty() || std::exchange(reported_, true)) return;
  std::fprintf(stderr, "hindsight: %s (process %d) %s: its recording ends here, it runs on\n",
               Printable(log_->manifest().program).c_str(), log_->pid(), Printable(reason).c_str());
}

void TranslateEngine::CheckBoot(int wait_status) {
  const ControlBlock& control = service_->control();
  if (control.boot_state == static_cast<uint32_t>(BootState::kRunning)) return;
  session_->Keep(absl::UnavailableError(absl::StrCat(
      "the program could not be started by engine translate: ", strerror(control.boot_error),
      " (status ", wait_status, ")")));
}

uint64_t TranslateEngine::open_instructions() const {
  return running_ && recording_ != nullptr ? recording_->instructions() : 0;
}

}  // namespace hindsight
