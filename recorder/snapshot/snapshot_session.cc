#include "recorder/snapshot/snapshot_session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "recorder/process/pid_namespace.h"
#include "recorder/process/program_lookup.h"
#include "recorder/snapshot/native_launch.h"
#include "recorder/snapshot/points/attached_points.h"
#include "recorder/snapshot/points/point_listener.h"
#include "recorder/snapshot/points/point_thread.h"
#include "recorder/snapshot/snapshot_trace.h"
#include "recorder/snapshot/watch_triggers.h"
#include "recorder/snapshot/write_thread.h"
#include "recorder/snapshot/written_planner.h"
#include "recorder/symbols/symbols.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

// How often it is looked whether threads have stopped at last that did not in time.
constexpr int kStragglerMs = 20;
constexpr int kIdleMs = 1000;

// The signals that the session takes, as a descriptor; as before when it is gone.
class SignalInput {
 public:
  // `end_signal` as well, unless it is 0.
  explicit SignalInput(int end_signal) {
    sigset_t set;
    sigemptyset(&set);
    if (end_signal != 0) sigaddset(&set, end_signal);
    for (const int signal : {SIGUSR1, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGCHLD}) {
      sigaddset(&set, signal);
    }
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    fd_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SignalInput() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalInput(const SignalInput&) = delete;
  SignalInput& operator=(const SignalInput&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  // The next one that has come; 0: none.
  int Take() {
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  sigset_t before_;
  UniqueFd fd_;
};

// At most kIdleMs.
int MsUntil(Clock::time_point due) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, kIdleMs));
}

uint64_t MostCopyBytes(const SnapshotOptions& options) {
  if (options.max_copy_bytes != 0) return options.max_copy_bytes;
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 4;
}

class Session {
 public:
  // `watch` may be null; `calls` and `stragglers` are its own, too.
  Session(const SnapshotOptions& options, SignalInput* signals, PointListener* listener,
          WatchTriggers* watch, DisturbedCalls* calls, Stragglers* stragglers)
      : options_(options),
        signals_(*signals),
        listener_(listener),
        watch_(watch),
        calls_(*calls),
        stragglers_(*stragglers) {}

  absl::Status Begin();
  void Run();
  absl::StatusOr<SnapshotResult> End();

 private:
  bool attached() const { return options_.attach_pid != 0; }
  bool watching() const { return watch_ != nullptr && watch_->watching(); }
  uint64_t NowNs() const { return static_cast<uint64_t>((Clock::now() - start_).count()); }
  std::chrono::nanoseconds period() const {
    return absl::ToChronoNanoseconds(options_.configuration.every);
  }
  bool full() const {
    const uint64_t most = options_.configuration.max_snapshots;
    return most != 0 && result_.stood.count() >= most;
  }
  absl::Status Launch();
  absl::Status LetLaunchedRun();
  int WaitMs();
  void FindMissingVariables(const Capture& capture);
  void CutShort(const absl::Status& status);
  void Take(SnapshotCause cause);
  void OnWatched();
  void TakePoint(PointThread* points);
  void OnTimer();
  void OnCallsDue();
  void OnSignals();
  void OnEnd();

  const SnapshotOptions& options_;
  SignalInput& signals_;
  PointListener* const listener_;
  WatchTriggers* const watch_;
  DisturbedCalls& calls_;
  Clock::time_point start_, due_;
  pid_t process_ = 0;
  UniqueFd life_;  // a pidfd
  Stragglers& stragglers_;
  std::unique_ptr<SnapshotTrace> trace_;
  std::unique_ptr<WriteThread> writer_;
  std::unique_ptr<WrittenPlanner> planner_;
  SnapshotResult result_;
  bool watched_one_ = false;  // and there may be more
  bool over_ = false;
};

absl::Status Session::Launch() {
  absl::Status watching;
  const auto before_exec = [&](pid_t pid) {
    listener_->Start(pid);
    if (watch_ != nullptr) watching = watch_->Start(pid, WatchTriggers::Process::kBeforeExec);
  };
  ASSIGN_OR_RETURN(const ExecCommand command, LookUpProgram(options_.arguments));
  ASSIGN_OR_RETURN(process_,
                   LaunchNative(command, {listener_->Environment()},
                                options_.program_mask.value_or(signals_.before()), before_exec));
  if (!watching.ok()) kill(process_, SIGKILL);
  return watching;
}

absl::Status Session::Begin() {
  // Threads are waited for in pauses of microseconds.
  prctl(PR_SET_TIMERSLACK, 1);
  process_ = options_.attach_pid;
  if (options_.launch) {
    ASSIGN_OR_RETURN(process_, options_.launch(listener_));
  } else if (!attached()) {
    RETURN_IF_ERROR(Launch());
  }
  life_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
  if (!life_.valid()) {
    return absl::NotFoundError(absl::StrCat("there is no process ", process_));
  }
  if (attached() && watch_ != nullptr) {
    RETURN_IF_ERROR(watch_->Start(process_, WatchTriggers::Process::kRuns));
  }
  start_ = Clock::now();
  due_ = start_ + period();
  auto trace = SnapshotTrace::Create(options_.directory, SnapshotManifest(process_, attached()),
                                     attached() ? absl::StrCat("/proc/", process_, "/root") : "",
                                     options_.ring);
  if (!trace.ok()) {
    if (!attached()) kill(process_, SIGKILL);
    return trace.status();
  }
  signal(SIGXFSZ, SIG_IGN);  // a trace that may not grow any more is an error like a full disk
  trace_ = *std::move(trace);
  RETURN_IF_ERROR(LetLaunchedRun());
  writer_ = std::make_unique<WriteThread>(trace_.get(), MostCopyBytes(options_));
  // Buffers for the next one and for the one that is being written; others count as their copies.
  const uint64_t most_written = std::min(options_.max_written_bytes, MostCopyBytes(options_) / 4);
  planner_ = std::make_unique<WrittenPlanner>(
      process_, options_.configuration.save.all ? most_written : 0, writer_->pool());
  return absl::OkStatus();
}

// A process that `launch` has made: not one of its arrivals is missed.
absl::Status Session::LetLaunchedRun() {
  if (!options_.launch) return absl::OkStatus();
  start_ = Clock::now();
  due_ = start_ + period();
  if (watch_ != nullptr) return watch_->Start(process_, WatchTriggers::Process::kStopped);
  options_.release();
  return absl::OkStatus();
}

int Session::WaitMs() {
  int wait_ms = stragglers_.LetGo() ? kIdleMs : kStragglerMs;
  if (period() > period().zero() && !full()) {
    wait_ms = std::min(wait_ms, MsUntil(due_));
  }
  if (watched_one_) return 0;
  if (const auto call_ns = calls_.next_ns(); call_ns.has_value()) {
    wait_ms = std::min(wait_ms, MsUntil(Clock::time_point(std::chrono::nanoseconds(*call_ns))));
  }
  const int watch_ms = watch_ == nullptr ? -1 : watch_->WaitMs();
  return watch_ms < 0 ? wait_ms : std::min(wait_ms, watch_ms);
}

// Those of libraries that are loaded later are named as well: the first snapshot does not have
// them.
void Session::FindMissingVariables(const Capture& capture) {
  const std::string copy = absl::StrCat("/proc/", capture.copy->pid());
  for (const std::string& name : capture.save.variables) {
    const MemoryMap map = MemoryMap::OfProcess(copy + "/maps");
    if (!FindVariables(name, map, copy + "/root").empty()) continue;
    result_.problems.push_back(
        absl::StrCat("--save=variable:", name, ": no variable of that name in snapshot 1"));
  }
}

void Session::CutShort(const absl::Status& status) {
  if (status.ok() || result_.cut_short) return;
  result_.cut_short = true;
  result_.end_reason = absl::StrCat("the trace could not be written: ", status.message());
}

void Session::Take(SnapshotCause cause) {
  if (const absl::Status written = writer_->status(); !written.ok()) {
    CutShort(written);
    over_ = over_ || attached();
  }
  if (full() || result_.cut_short) return;
  const uint64_t now_ns = NowNs();
  SharedMemory shared = SharedMemory::Plan(
      process_,
      options_.max_shared_bytes != 0 ? options_.max_shared_bytes : SharedMemory::kMostBytes,
      writer_->pool());
  absl::StatusOr<Capture> capture =
      TakeCapture(process_, std::move(cause),
                  watching() ? watch_->MakeStop() : StopForCapture(process_, &stragglers_, &calls_),
                  std::move(shared), planner_->Take());
  planner_->Begin();
  if (!capture.ok()) {
    // The end is reported by itself.
    if (absl::IsNotFound(capture.status())) return;
    if (result_.failed++ == 0) result_.first_failure = std::string(capture.status().message());
    return;
  }
  capture->time_ns = now_ns;
  if (watch_ != nullptr) capture->arrivals = watch_->arrivals();
  capture->save = options_.configuration.save;
  if (result_.stood.count() == 0) FindMissingVariables(*capture);
  result_.stood.Add(capture->stood_ns);
  result_.skew.Add(capture->skew_ns);
  if (options_.on_capture && options_.on_capture(*capture)) {
    result_.end_reason = "the last snapshot that was wanted";
    over_ = true;
  }
  writer_->Post(*std::move(capture));
}

// Also after other snapshots, which stop the watched threads, and in whose stop others may come to
// theirs.
void Session::OnWatched() {
  if (watch_ == nullptr) return;
  watched_one_ = false;
  while (const std::optional<SnapshotCause> cause = full() ? std::nullopt : watch_->Next()) {
    watched_one_ = true;
    const pid_t thread = cause->thread;
    writer_->WaitForRoom(ResidentBytes(process_));
    Take(*cause);
    watch_->Pass(thread);
  }
  watch_->GoOn();
  if (full()) watch_->End();
}

void Session::TakePoint(PointThread* points) {
  const std::optional<Point> point = points->Take();
  if (!point.has_value()) return;
  writer_->WaitForRoom(ResidentBytes(process_));
  Take({.trigger = static_cast<uint32_t>(point->trigger),
        .thread = point->thread,
        .level = point->level,
        .class_number = point->class_number,
        .id = point->id,
        .text = PointText(*point)});
  points->Done();
}

void Session::OnTimer() {
  if (period() <= period().zero() || full() || Clock::now() < due_) return;
  if (writer_->HasRoom(ResidentBytes(process_))) {
    Take({.trigger = static_cast<uint32_t>(Trigger::kTimer)});
  } else {
    ++result_.passed_over;
  }
  due_ = std::max(due_ + period(), Clock::now());
}

void Session::OnCallsDue() {
  if (watching()) {
    watch_->EndDueCalls();
  } else {
    EndDueCalls(process_, &calls_, &stragglers_);
  }
}

void Session::OnSignals() {
  while (const int signal = signals_.Take()) {
    if (signal == SIGCHLD) continue;  // OnWatched looks anyway
    if (signal == SIGUSR1) {
      writer_->WaitForRoom(ResidentBytes(process_));
      Take({.trigger = static_cast<uint32_t>(Trigger::kOutside)});
    } else if (attached() || signal == options_.end_signal) {
      result_.end_reason = "ended by a signal";
      over_ = true;
    } else if (signal == SIGTERM || signal == SIGHUP) {
      kill(process_, signal);
    }
  }
}

void Session::OnEnd() {
  over_ = true;
  if (attached()) {
    result_.end_reason = "the process ended";
    return;
  }
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  result_.wait_status = status;
}

void Session::Run() {
  PointThread points(listener_);
  while (!over_) {
    std::array<pollfd, 3> inputs = {
        {{signals_.fd(), POLLIN, 0}, {life_.get(), POLLIN, 0}, {points.descriptor(), POLLIN, 0}}};
    if (poll(inputs.data(), inputs.size(), WaitMs()) < 0) continue;
    if (inputs[2].revents != 0) TakePoint(&points);
    OnTimer();
    OnCallsDue();
    OnSignals();
    OnWatched();
    if (inputs[1].revents != 0) OnEnd();
  }
  listener_->Stop();
  if (watch_ == nullptr) return;
  for (std::string& problem : watch_->Problems()) result_.problems.push_back(std::move(problem));
  watch_->End();
}

absl::StatusOr<SnapshotResult> Session::End() {
  const uint64_t end_ns = NowNs();
  writer_->Drain();
  CutShort(writer_->status());
  CutShort(trace_->Finish(attached() ? -1 : result_.wait_status, result_.end_reason, end_ns));
  result_.snapshots = trace_->snapshots();
  result_.trace_bytes = trace_->bytes_written();
  result_.seconds = static_cast<double>(end_ns) / 1e9;
  return std::move(result_);
}

// Of a process that was attached to: its points may be all that snapshots are taken at.
void ReportMissingPoints(const SnapshotOptions& options, const absl::Status& points) {
  if (!options.on_problem) return;
  if (!points.ok()) {
    options.on_problem(std::string(points.message()));
  } else if (options.configuration.every <= absl::ZeroDuration() &&
             options.configuration.signals.empty() && options.configuration.functions.empty()) {
    options.on_problem(absl::StrCat("process ", options.attach_pid,
                                    " has no points that are free to be listened to: snapshots are "
                                    "taken only when this process gets SIGUSR1"));
  }
}

}  // namespace

absl::StatusOr<SnapshotResult> TakeSnapshots(const SnapshotOptions& options) {
  RETURN_IF_ERROR(CheckProcIsOurs());
  SignalInput signals(options.end_signal);  // before any thread is made, which would get them
  DisturbedCalls calls;
  Stragglers stragglers;
  // Snapshots are taken whether or not there are points.
  absl::StatusOr<std::unique_ptr<AttachedPoints>> points = nullptr;
  if (options.attach_pid != 0) points = AttachedPoints::Make(options.attach_pid);
  const bool has_points = points.ok() && *points != nullptr;
  ASSIGN_OR_RETURN(const std::unique_ptr<PointListener> listener,
                   PointListener::Make(options.configuration.points,
                                       has_points ? (*points)->TakeFd() : UniqueFd()));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<WatchTriggers> watch,
      WatchTriggers::Make(options.configuration, &calls, &stragglers, options.earlier_arrivals));
  Session session(options, &signals, listener.get(), watch.get(), &calls, &stragglers);
  RETURN_IF_ERROR(session.Begin());
  if (has_points) {
    listener->Start(options.attach_pid);
    (*points)->Listen();
  } else if (options.attach_pid != 0) {
    ReportMissingPoints(options, points.status());
  }
  session.Run();
  if (has_points) *points = nullptr;
  return session.End();
}

}  // namespace hindsight
