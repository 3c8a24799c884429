// ThreadEngine: the end of a thread's recording.

#include <utility>

#include "recorder/recording.h"
#include "recorder/thread_engine.h"

namespace hindsight {

void ThreadEngine::EndLog() {
  if (cpu_ == nullptr) {
    // Killed before its first turn. Of a process there must be something.
    if (thread() != process_->pid()) return;
    log_.Event({.kind = EventKind::kThreadStart, .sequence = log_.NextSequence()});
    log_.BeginSegment(0, sync_registers_);
  }
  const uint64_t count = this->count();
  log_.EndSegment(count, cpu_ == nullptr ? sync_registers_ : cpu_->registers());
  if (!exit_noted_) log_.Event({.kind = EventKind::kThreadExit, .count = count});
}

void ThreadEngine::OnExit(int wait_status) {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  if (call_.has_value()) {
    for (const TraceeStop& earlier : std::exchange(call_->passed_on, {})) {
      NoteSignal(earlier, cpu_->registers());
    }
  }
  EndLog();
  process_->NoteExit(wait_status, this);
}

// The thread was killed while it was not it that ran: what it was before cannot be read any more.
// The recording ends with the last state that is in the log.
void ThreadEngine::OnVanished() {
  const bool hashed = hashed_count_ > sync_count_;
  cpu_->SetRegisters(hashed ? hashed_registers_ : sync_registers_);
  cpu_->set_count(hashed ? hashed_count_ : sync_count_);
  ordered_.clear();
  while (true) {
    const TraceeStop stop = tracee_->Wait([this] { recording_->KeepHouse(); });
    if (stop.kind != TraceeStopKind::kExited) continue;
    OnExit(stop.wait_status);
    return;
  }
}

void ThreadEngine::LetGo(const std::string& reason, std::vector<ThreadToDetach>* detach) {
  if (state_ == State::kEnded) return;
  ThreadToDetach how = {.thread = thread()};
  if (state_ == State::kReady) {
    if (cpu_ != nullptr) ToProcess();
  } else if (pending_status_.has_value()) {
    const TraceeStop stop = tracee_->Interpret(*pending_status_);
    if (stop.kind == TraceeStopKind::kSignal) how.signal = stop.signal;
  } else {
    how.running = true;
  }
  state_ = State::kEnded;
  if (cpu_ != nullptr && !reason.empty()) {
    const uint64_t count = cpu_->count();
    log_.EndSegment(count, cpu_->registers());
    log_.Event({.kind = EventKind::kGap, .count = count, .text = reason});
  }
  detach->push_back(how);
}

}  // namespace hindsight
