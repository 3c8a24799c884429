#include "recorder/session/recording_session.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "recorder/session/engine.h"

namespace hindsight {
namespace {

// Anything older than this has been written: how much a killed recorder may lose.
constexpr std::chrono::milliseconds kFlushInterval(900);

// Processes that end so soon after the program are recorded to their end: helpers whose pipe or
// parent is gone, the other end of a pipeline.
constexpr std::chrono::milliseconds kGraceAfterProgram(200);

}  // namespace

RecordingSession::RecordingSession(const RecordOptions& options, Plan plan, Trace trace,
                                   std::function<Clock::time_point()> now)
    : options_(options),
      part_(std::move(plan.part)),
      triggers_(std::move(plan.triggers)),
      now_(std::move(now)),
      start_(now_()),
      last_flush_(start_),
      trace_(std::move(trace)),
      stop_(options.attach_pid != 0 ? StopRequest::Program::kAttached
                                    : StopRequest::Program::kLaunched),
      progress_(options_, STDERR_FILENO) {
  result_.threads = 0;
  signal(SIGXFSZ, SIG_IGN);  // a trace that may not grow any more is an error like a full disk
}

uint64_t RecordingSession::NowNs() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now_() - start_).count();
}

void RecordingSession::WakeAt(uint64_t ns) {
  const uint64_t now_ns = NowNs();
  stop_.TickWithin(ns - std::min(ns, now_ns));
}

std::optional<SnapshotReason> RecordingSession::SnapshotDue(SnapshotTriggers::Seen* seen) const {
  return triggers_->Due(NowNs(), stop_.snapshots_wanted(), seen);
}

SnapshotTriggers::Seen RecordingSession::SnapshotsSeen() const {
  return triggers_->Begin(NowNs(), stop_.snapshots_wanted());
}

absl::StatusOr<ProcessLog*> RecordingSession::Open(Manifest process, ProcessLog* parent,
                                                   std::string root) {
  std::unique_ptr<TraceWriter> writer = std::move(trace_.writer);
  if (writer == nullptr) {
    process.uuid.clear();
    TraceWriter* const beside = (parent == nullptr ? logs_.front().get() : parent)->writer();
    ASSIGN_OR_RETURN(writer, beside->CreateChild(process));
    ++result_.processes;
  }
  logs_.push_back(std::make_unique<ProcessLog>(
      std::move(writer), std::move(process), std::move(root), options_.max_module_bytes, modules_));
  return logs_.back().get();
}

void RecordingSession::Close(ProcessLog* log) {
  result_.instructions += log->totals().instructions;
  result_.threads += log->totals().threads;
  result_.light_keyframes += log->totals().segments;
  result_.full_keyframes += log->full_keyframes();
  result_.snapshots += log->snapshots();
  // Its writer knows the size of the whole recording.
  if (log == logs_.front().get()) return;
  Finish(log);
  logs_.remove_if([log](const auto& open) { return open.get() == log; });
}

void RecordingSession::Finish(ProcessLog* log) { Keep(log->Finish(sequence_.last, NowNs())); }

void RecordingSession::NoteProgramExit(int wait_status) {
  if (!program_exit_.has_value()) program_exit_ = now_();
  result_.wait_status = wait_status;
  // A Ctrl-C can only be meant for the recorder from now on.
  stop_.StopOnInterrupt();
}

void RecordingSession::NoteUnrecorded() {
  foreign_mappings_.Forget();
  progress_.NoteUnrecorded();
}

bool RecordingSession::flush_due() const { return now_() - last_flush_ >= kFlushInterval; }

void RecordingSession::Tick(const Engine& engine) {
  const Clock::time_point now = now_();
  CheckLimits(engine);
  if (now - last_flush_ >= kFlushInterval) {
    last_flush_ = now;
    for (const auto& log : logs_) Keep(log->writer()->Flush());
  }
  progress_.Tick(now, [this, &engine] { return Progress(engine); });
}

void RecordingSession::CheckLimits(const Engine& engine) {
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
  } else if (options_.max_trace_bytes != 0 && trace_bytes() >= options_.max_trace_bytes) {
    end_reason_ = absl::StrCat("the trace has reached ", options_.max_trace_bytes, " bytes");
  } else if (!options_.wait_for_all && program_exit_.has_value() &&
             now_() - *program_exit_ >= kGraceAfterProgram && engine.living_processes() > 0) {
    end_reason_ = "the program has ended";
    result_.processes_left = engine.living_processes();
  }
}

void RecordingSession::EndAtSnapshot() {
  ended_at_snapshot_ = true;
  if (end_reason_.empty()) end_reason_ = "the last snapshot that was wanted";
}

void RecordingSession::NoteBlockCheck(const std::string& difference) {
  ++result_.blocks_checked;
  if (difference.empty()) return;
  if (result_.blocks_differing++ == 0) result_.first_difference = difference;
}

uint64_t RecordingSession::trace_bytes() const {
  return logs_.empty() ? 0 : logs_.front()->writer()->bytes_written();
}

RecordProgress RecordingSession::Progress(const Engine& engine) const {
  return {.instructions = result_.instructions + engine.open_instructions(),
          .events = sequence_.events(),
          .trace_bytes = trace_bytes(),
          .seconds = static_cast<double>(NowNs()) / 1e9};
}

void RecordingSession::FinishTraces() {
  for (const auto& log : logs_) Finish(log.get());
}

absl::StatusOr<RecordResult> RecordingSession::Result() {
  // The error did not come from starting the program.
  if (failed()) return absl::AbortedError(status_.message());
  if (logs_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "nothing was recorded: ", part_->has_start()
                                      ? absl::StrCat(options_.start_at, " was not reached")
                                      : absl::StrCat(options_.only_program, " was not run")));
  }
  if (options_.remark) {
    for (const std::string& problem : triggers_->Problems()) {
      options_.remark(absl::StrCat("--at=", problem));
    }
  }
  result_.end_reason = logs_.front()->end_reason();
  result_.trace_bytes = trace_bytes();
  result_.events = sequence_.events();
  result_.seconds = static_cast<double>(NowNs()) / 1e9;
  result_.at_line_start = progress_.at_line_start();
  return result_;
}

}  // namespace hindsight
