// ThreadEngine: the end of a thread's recording.

#include <utility>

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kStopTimeout(5000);

}  // namespace

void ThreadEngine::EndLog() {
  if (cpu_ == nullptr) {
    // Killed before its first turn. Of a process there must be something.
    if (thread() != process_->pid()) return;
    notes_.StartKilled();
    log_.BeginSegment(0, sync_.registers());
  }
  const uint64_t count = this->count();
  log_.EndSegment(count, cpu_ == nullptr ? sync_.registers() : cpu_->registers());
  notes_.Exit(count);
}

void ThreadEngine::OnExit(int wait_status) {
  if (state_ == State::kEnded) return;
  const bool native = std::exchange(state_, State::kEnded) == State::kNative;
  if (call_.has_value()) {
    for (const TraceeStop& earlier : call_->TakeHeldSignals()) {
      NoteSignal(earlier, cpu_->registers());
    }
  }
  if (!native) EndLog();
  ReturnMemory();
  NoteWordsAtEnd(process_);
  process_->NoteExit(wait_status, this);
}

// The thread was killed while it was not it that ran: what it was before cannot be read any more.
// The recording ends with the last state that is in the log. Its end is told by the kernel when all
// other threads of its process have been waited for, if it is the first: so not here.
void ThreadEngine::OnVanished() {
  sync_.GoToLastLogged();
  state_ = State::kWaiting;
}

// Brings a thread that is in a system call to a stop in which no signal is about to be delivered.
bool ThreadEngine::StopInCall() {
  tracee_->Unpark();
  if (pending_status_.has_value()) {
    const TraceeStop stop = tracee_->Interpret(*std::exchange(pending_status_, std::nullopt));
    if (stop.kind == TraceeStopKind::kExited) return false;
    if (stop.kind != TraceeStopKind::kSignal) return true;
    ContinueToStop(thread(), stop.signal);
  } else {
    tracee_->Interrupt();
  }
  return WaitForSeizedStop(thread(), kStopTimeout).kind != SeizedStop::Kind::kGone;
}

bool ThreadEngine::Suspend(const std::string& reason) {
  if (state_ == State::kEnded) return false;
  if (state_ == State::kReady && cpu_ != nullptr) ToProcess();
  if (state_ == State::kWaiting && !StopInCall()) {
    OnExit(0);
    return false;
  }
  state_ = State::kNative;
  affinity_.Release();
  call_.reset();
  if (cpu_ == nullptr) return true;
  log_.Append(cpu_->count(), Gap{reason});
  notes_.Gap(cpu_->count(), reason);
  return true;
}

void ThreadEngine::Resume() {
  state_ = State::kReady;
  tracee_->ForgetRegisters();
  if (cpu_ == nullptr) return;
  RegisterFile registers;
  if (!tracee_->GetRegisters(/*vectors=*/true, &registers)) return;  // gone: its stop will tell
  pager_.Reset();
  pager_.SetSpace(process_->image().space());
  if (process_->sharing().many_threads()) pager_.BeCareful();
  cpu_->SetRegisters(registers);
  // Another state than the last one recorded.
  cpu_->set_count(cpu_->count() + 1);
  sync_.StartAgain();
  after_call_ = false;
  log_.BeginSegment(sync_.count(), sync_.registers());
  if (engine_->session().options().light_keyframe_interval != 0) {
    next_light_keyframe_ = sync_.count() + engine_->session().options().light_keyframe_interval;
  }
}

void ThreadEngine::LetGo(const std::string& reason, std::vector<ThreadToDetach>* detach) {
  if (state_ == State::kEnded) return;
  if (state_ == State::kNative) {
    state_ = State::kEnded;
    return;
  }
  affinity_.Release();
  ThreadToDetach how = {.thread = thread()};
  if (state_ == State::kReady) {
    if (cpu_ != nullptr) ToProcess();
  } else if (tracee_->Unpark(); pending_status_.has_value()) {
    const TraceeStop stop = tracee_->Interpret(*pending_status_);
    if (stop.kind == TraceeStopKind::kSignal) how.signal = stop.signal;
  } else {
    how.running = true;
  }
  state_ = State::kEnded;
  if (cpu_ != nullptr && !reason.empty()) {
    const uint64_t count = cpu_->count();
    log_.EndSegment(count, cpu_->registers());
    notes_.Gap(count, reason);
  }
  detach->push_back(how);
}

}  // namespace hindsight
