#include "recorder/emulate/recorded_process.h"

#include <signal.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/remote_call.h"

namespace hindsight {

RecordedProcess::RecordedProcess(EmulateEngine* engine, ProcessLog* log,
                                 std::unique_ptr<Tracee> first)
    : engine_(engine),
      log_(log),
      image_(&engine->session(), log, &sharing_),
      snapshots_seen_(engine->session().SnapshotsSeen()) {
  engine->session().Keep(image_.Open(first.get()));
  AddThread(std::move(first), /*maker=*/0);
}

RecordedProcess::~RecordedProcess() = default;

ThreadEngine* RecordedProcess::Find(pid_t thread) const {
  for (const auto& engine : threads_) {
    if (engine->thread() == thread) return engine.get();
  }
  return nullptr;
}

ThreadEngine* RecordedProcess::AddThread(std::unique_ptr<Tracee> tracee, int32_t maker) {
  if (!threads_.empty() && !sharing_.many_threads()) {
    sharing_.NoteManyThreads();
    witnesses_.Enable();
    for (const auto& engine : threads_) engine->OnManyThreads();
  }
  threads_.push_back(std::make_unique<ThreadEngine>(engine_, this, std::move(tracee), maker));
  return threads_.back().get();
}

void RecordedProcess::RemoveEnded() {
  for (auto it = threads_.begin(); it != threads_.end();) {
    if ((*it)->state() != ThreadEngine::State::kEnded) {
      ++it;
      continue;
    }
    AddUp(**it);
    if (last_thread_ == it->get()) last_thread_ = nullptr;
    log_->writer()->CloseThread((*it)->thread());
    if (ended_) witnesses_.Clear();
    it = threads_.erase(it);
  }
}

void RecordedProcess::AddUp(const ThreadEngine& engine) {
  log_->AddThread(engine.log(), engine.count(), engine.features_used());
}

void RecordedProcess::AddUpThreads() {
  for (const auto& engine : threads_) AddUp(*engine);
}

absl::Status RecordedProcess::UnpatchVdso(ThreadEngine* by) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> pages, image_.UnpatchVdso(by->thread()));
  for (const auto& engine : threads_) engine->ResyncPages(pages);
  return absl::OkStatus();
}

bool RecordedProcess::TrustsOutputs() const {
  const RecordOptions& options = engine_->session().options();
  const bool from_birth =
      options.attach_pid == 0 && options.start_at.empty() && options.stop_at.empty();
  // Self-checks are to find errors, so nothing is left out.
  return sharing_.trusted() && from_birth && options.self_checks_per_million == 0 &&
         !engine_->untracked_writes();
}

void RecordedProcess::OnExec(const std::string& program) {
  sharing_.OnExec();
  witnesses_.Clear();
  for (const auto& engine : threads_) engine->tracee().UseCommitArea(nullptr);
  image_.OnExec(program);
}

void RecordedProcess::TakeSnapshot(ThreadEngine* by, SnapshotReason reason) {
  RecordingSession& session = engine_->session();
  if (session.triggers().IsEnough() || session.failed() || ended_) return;
  session.triggers().NoteTaken();
  reason.time_ns = session.NowNs();
  if (reason.trigger != kTimerTrigger && reason.trigger != kOutsideTrigger) {
    reason.thread = by->thread();
  }
  session.Keep(WriteFullKeyframe(by, /*with_memory=*/true, reason));
  const auto& on_snapshot = session.options().on_snapshot;
  if (on_snapshot && !session.failed() && on_snapshot(reason, pid())) session.EndAtSnapshot();
}

bool RecordedProcess::snapshot_due() const {
  SnapshotTriggers::Seen seen = snapshots_seen_;
  return engine_->session().SnapshotDue(&seen).has_value();
}

void RecordedProcess::TakeSnapshotIfDue(ThreadEngine* by) {
  std::optional<SnapshotReason> reason = engine_->session().SnapshotDue(&snapshots_seen_);
  if (reason.has_value()) TakeSnapshot(by, *std::move(reason));
}

absl::Status RecordedProcess::WriteFullKeyframe(ThreadEngine* by, bool with_memory,
                                                std::optional<SnapshotReason> snapshot) {
  const absl::Span<const uint64_t> auxv = image_.auxv();
  KeyframeHead head = {.sequence = engine_->session().sequence()->last,
                       .auxv = {auxv.begin(), auxv.end()}};
  if (snapshot.has_value()) {
    head.stood = [session = &engine_->session(), start = snapshot->time_ns] {
      return session->NowNs() - start;
    };
    head.snapshot = std::move(snapshot);
  }
  for (const auto& engine : threads_) {
    const ThreadEngine::State state = engine->state();
    if (engine->begun() &&
        (state == ThreadEngine::State::kReady || state == ThreadEngine::State::kWaiting)) {
      head.threads.push_back(engine->NewSegment());
    }
  }
  RETURN_IF_ERROR(log_->WriteFullKeyframe(std::move(head), by->thread(), by->count(),
                                          image_.space()->map(), with_memory));
  const uint64_t interval = engine_->session().options().full_keyframe_interval;
  if (interval != 0) next_full_keyframe_ = Instructions() + interval;
  return absl::OkStatus();
}

uint64_t RecordedProcess::Instructions() const {
  uint64_t sum = log_->totals().instructions;
  for (const auto& engine : threads_) sum += engine->count();
  return sum;
}

bool RecordedProcess::full_keyframe_due() const {
  return Instructions() >= next_full_keyframe_ || log_->writer()->WantsFullKeyframe();
}

void RecordedProcess::WriteKeyframeIfWanted(ThreadEngine* by) {
  RecordingSession& session = engine_->session();
  if (session.failed() || ended_ || !log_->writer()->WantsFullKeyframe()) return;
  session.Keep(WriteFullKeyframe(by, /*with_memory=*/true));
}

bool RecordedProcess::StartsSlice(const ThreadEngine* thread) const {
  return sharing_.many_threads() && last_thread_ != thread;
}

void RecordedProcess::NoteExit(int wait_status, ThreadEngine* thread) {
  engine_->tasks().RemoveThread(thread->thread());
  if (thread->thread() != pid()) return;
  // The kernel reports the first thread's end when all others have ended.
  ended_ = true;
  engine_->session().Keep(log_->LogExit(thread->count(), wait_status));
}

void RecordedProcess::NoteNativeExit(int wait_status) {
  for (const auto& engine : threads_) engine->OnExit(wait_status);
  if (ended_) return;
  ended_ = true;
  log_->NoteUnrecordedExit(wait_status);
}

void RecordedProcess::ReachStop() {
  const std::string reason = absl::StrCat("has reached ", engine_->session().options().stop_at);
  if (engine_->session().options().start_at.empty()) {
    LetGo(reason);
    return;
  }
  std::vector<StoppedThread> threads;
  for (const auto& engine : threads_) {
    engine_->tasks().RemoveThread(engine->thread());
    if (engine->Suspend(reason)) threads.push_back({.thread = engine->thread()});
  }
  paused_ = true;
  engine_->native_runs().Run(pid(), threads);
}

absl::Status RecordedProcess::ResumeRecording(absl::Span<const StoppedThread> threads) {
  const std::unique_ptr<Tracee> first = Tracee::Adopt(pid(), threads.front().thread);
  if (const std::string program = ExecutablePath(pid()); program != image_.program()) {
    OnExec(program);
    RETURN_IF_ERROR(image_.Open(first.get()));
  } else {
    RETURN_IF_ERROR(image_.ReloadMap(first.get(), nullptr, 0));
  }
  for (const StoppedThread& thread : threads) {
    ThreadEngine* engine = Find(thread.thread);
    if (engine == nullptr) {
      AddThread(Tracee::Adopt(pid(), thread.thread), 0);
    } else {
      engine->Resume();
    }
  }
  for (const auto& engine : threads_) {
    if (engine->state() == ThreadEngine::State::kNative) engine->OnExit(0);
  }
  last_thread_ = nullptr;
  keyframe_wanted_ = true;
  paused_ = false;
  return absl::OkStatus();
}

void RecordedProcess::LetGo(const std::string& reason) {
  if (ended_) return;
  if (!reason.empty() && !engine_->session().end_wanted()) {
    std::fprintf(stderr, "hindsight: %s (process %d) %s: its recording ends here, it runs on\n",
                 Printable(image_.program()).c_str(), pid(), Printable(reason).c_str());
  }
  engine_->session().foreign_mappings().Forget();
  ended_ = true;
  log_->NoteEndReason(reason.empty() ? "the trace could not be written" : reason);
  std::vector<ThreadToDetach> detach;
  for (const auto& engine : threads_) {
    engine->Detach(reason, &detach);
    engine_->tasks().RemoveThread(engine->thread());
  }
  for (const ThreadToDetach& thread : detach) {
    if (thread.stays) engine_->tasks().NoteToDetach(thread.thread);
  }
  if (engine_->session().ended_at_snapshot()) {
    kill(pid(), SIGKILL);  // before it runs on
    return;
  }
  StopToDetach(absl::MakeSpan(detach));
  CommitArea* area = image_.commit_area();
  for (const ThreadToDetach& thread : detach) {
    if (!MayCall(thread)) continue;
    if (area != nullptr) std::exchange(area, nullptr)->Remove(thread.thread);
    // Each thread has a personality of its own, and passes it on to its children.
    if (!engine_->session().attached()) RandomizeAddressesAgain(thread.thread).IgnoreError();
  }
  // Patches in memory that is shared with another process stay.
  const absl::Status status = DetachFromProcess(
      pid(), detach, sharing_.with_process() ? std::vector<VdsoPatch>() : image_.vdso_patches());
  if (!status.ok()) engine_->session().Keep(status);
}

void RecordedProcess::NoteSignal(int signal) {
  stopping_ |= signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

}  // namespace hindsight
