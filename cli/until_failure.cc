#include "cli/until_failure.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/unique_fd.h"
#include "cli/info/record_text.h"
#include "cli/progress_line.h"

namespace hindsight {
namespace {

constexpr int kExitRecorder = 125;
constexpr int kTickMs = 200;

// A global: a signal handler cannot reach anything else.
std::atomic<int> stop_signal{0};

// While alive, signals that ask a command to end set stop_signal.
class NotedSignals {
 public:
  NotedSignals() {
    stop_signal = 0;
    struct sigaction note = {};  // no SA_RESTART: waiting must end
    note.sa_handler = [](int signal) { stop_signal = signal; };
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &saved_[i]);
      if (saved_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &note, nullptr);
    }
  }
  ~NotedSignals() { Restore(); }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

  // In a child as well: what it runs is to begin as this process did.
  void Restore() const {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &saved_[i], nullptr);
  }

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 4> saved_ = {};
};

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void Say(const std::string& text) {
  std::fprintf(stderr, "hindsight: %s\n", Printable(text).c_str());
}

// Runs are removed, so nothing else may be there. (The first run would notice too late.)
bool IsFree(const std::string& trace) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::symlink_status(trace, error);
  if (!std::filesystem::exists(status)) return true;
  return std::filesystem::is_directory(status) && std::filesystem::is_empty(trace, error) && !error;
}

void Remove(const std::string& trace) {
  std::error_code error;
  std::filesystem::remove_all(trace, error);
  if (error) Say(absl::StrCat(trace, ": cannot be removed: ", error.message()));
}

// In the forked child: nothing of the parent's buffers is written twice. `what` is shown where that
// does not disturb the program, which only the recorder knows.
[[noreturn]] void RecordInChild(const RecordRun& record, RecordOptions options,
                                const std::string& what, int result) {
  ProgressLine progress;
  if (progress.may_show_beside_program()) {
    options.progress = [&](const RecordProgress& now) {
      progress.Show(absl::StrFormat("%s, %.1f s", what, now.seconds));
    };
    options.hide_progress = [&] { progress.Clear(); };
  }
  const RunOutcome outcome = record(options);
  std::fflush(nullptr);
  const bool sent = write(result, &outcome, sizeof(outcome)) == sizeof(outcome);
  _exit(sent ? 0 : kExitRecorder);
}

// `what` is shown meanwhile on a terminal.
RunOutcome RunOnce(const RecordOptions& options, const RecordRun& record,
                   const NotedSignals& signals, const std::string& what) {
  const RunOutcome lost = {.recorder_exit = kExitRecorder};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return lost;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return lost;
  if (child == 0) {
    signals.Restore();
    RecordInChild(record, options, what, write_end.get());
  }
  write_end.Reset();
  pollfd ready = {read_end.get(), POLLIN, 0};
  while (stop_signal == 0 && poll(&ready, 1, kTickMs) <= 0) {
  }
  // The program dies with its recorder.
  if (stop_signal != 0) kill(child, SIGKILL);
  RunOutcome outcome;
  const bool received = read(read_end.get(), &outcome, sizeof(outcome)) == sizeof(outcome);
  WaitFor(child);
  return received ? outcome : lost;
}

}  // namespace

std::string FailureText(const RunOutcome& outcome, uint64_t seed) {
  return absl::StrCat(
      outcome.timed_out ? "killed by --timeout" : WaitStatusText(outcome.wait_status), ", seed ",
      seed);
}

RunOutcome RecordUntilFailure(const RecordOptions& options, uint64_t most,
                              const RecordRun& record) {
  if (!IsFree(options.directory)) {
    Say(absl::StrCat(options.directory, ": exists and is not an empty directory"));
    return {.recorder_exit = kExitRecorder};
  }
  const NotedSignals signals;
  const off_t input = lseek(STDIN_FILENO, 0, SEEK_CUR);
  const std::string of_most = most == 0 ? "" : absl::StrCat(" of at most ", most);
  RecordOptions run = options;
  RunOutcome outcome;
  for (uint64_t number = 1; most == 0 || number <= most; ++number, ++run.seed) {
    if (input >= 0) lseek(STDIN_FILENO, input, SEEK_SET);
    const std::string what = absl::StrCat("run ", number, of_most);
    outcome = RunOnce(run, record, signals, absl::StrCat(what, ", seed ", run.seed));
    run.at_line_start = outcome.at_line_start;
    if (stop_signal != 0) {
      // It was killed: continues below what it showed last.
      if (isatty(STDERR_FILENO) != 0) std::fputc('\n', stderr);
      Remove(run.directory);
      Say(absl::StrCat("stopped in run ", number, ": none before it failed"));
      return {.recorder_exit = 128 + stop_signal};
    }
    if (outcome.recorder_exit != 0) return outcome;
    if (outcome.failed()) {
      Say(absl::StrCat(what, " failed (", FailureText(outcome, run.seed), "): ", run.directory,
                       "; to replay it: hindsight replay ", run.directory));
      return outcome;
    }
    Remove(run.directory);
  }
  Say(absl::StrCat("none of ", most, most == 1 ? " run" : " runs", " failed"));
  return outcome;
}

}  // namespace hindsight
