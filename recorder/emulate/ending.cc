// ThreadEngine: the end of a thread's recording.

#include <sys/syscall.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread_engine.h"

namespace hindsight {

void ThreadEngine::EndLog() {
  if (cpu_ == nullptr) {
    // Killed before its first turn. A trace needs at least one segment.
    if (thread() != process_->pid()) return;
    notes_.StartKilled();
    log_.BeginSegment(0, sync_.registers());
  }
  const uint64_t count = this->count();
  log_.EndSegment(count, cpu_ == nullptr ? sync_.registers() : cpu_->registers());
  notes_.Exit(count);
}

bool ThreadEngine::IsExiting() const { return call_.has_value() && call_->number() == SYS_exit; }

// What the kernel has stored for the thread in its last call belongs to its own last state, and not
// to a state of the thread that looks there next. (The memory is read through another thread. If
// all end, nobody looks there.)
void ThreadEngine::LogWordsAtEnd() {
  if (cpu_ == nullptr || !IsExiting()) return;
  const auto& threads = process_->threads();
  const auto lives = std::find_if(threads.begin(), threads.end(), [](const auto& other) {
    return other->state_ != State::kEnded && !other->IsExiting();
  });
  if (lives == threads.end()) return;
  pager_.ImportAtEnd(&(*lives)->tracee_->memory(), kernel_words_.AtEnd());
}

// The thread has no turn any more, but its events stand in a slice of its own.
void ThreadEngine::LogHeldSignals() {
  const std::vector<TraceeStop> held = call_->TakeHeldSignals();
  if (held.empty()) return;
  BeginSliceIfDue();
  process_->NoteTurn(this);
  for (const TraceeStop& earlier : held) transitions_.Signal(earlier);
}

void ThreadEngine::OnExit(int wait_status) {
  if (state_ == State::kEnded) return;
  const bool native = std::exchange(state_, State::kEnded) == State::kNative;
  if (call_.has_value()) LogHeldSignals();
  if (!native) {
    LogWordsAtEnd();
    EndLog();
  }
  ReturnBorrowedMemory();
  ShareWordsAtEnd(process_);
  process_->NoteExit(wait_status, this);
}

// The thread was killed while it was stopped: its memory cannot be read any more. Its recording
// ends with the last state in the log. Its exit is not handled here: of a process's first thread,
// the kernel reports it only when all other threads have been waited for.
void ThreadEngine::OnVanished() {
  sync_.GoToLastLogged();
  state_ = State::kWaiting;
}

bool ThreadEngine::Suspend(const std::string& reason) {
  if (state_ == State::kEnded) return false;
  if (state_ == State::kReady && cpu_ != nullptr) CommitToProcess();
  if (state_ == State::kWaiting && !stops_.StopInCall()) {
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
  if (!tracee_->GetRegisters(/*vectors=*/true, &registers)) return;  // gone: its stop reports that
  pager_.Reset();
  pager_.SetSpace(process_->image().space());
  if (process_->sharing().many_threads()) pager_.NoteSiblings();
  cpu_->SetRegisters(registers);
  // Another state than the last one recorded.
  cpu_->set_count(cpu_->count() + 1);
  sync_.StartAgain();
  after_call_ = false;
  log_.BeginSegment(sync_.count(), sync_.registers());
  segments_.Begin(sync_.count(), /*pages=*/0);
}

void ThreadEngine::Detach(const std::string& reason, std::vector<ThreadToDetach>* detach) {
  if (state_ == State::kEnded) return;
  if (state_ == State::kNative) {
    state_ = State::kEnded;
    return;
  }
  ThreadToDetach how = {.thread = thread(), .stays = WaitsForChild()};
  if (state_ == State::kReady) {
    if (cpu_ != nullptr) CommitToProcess();
  } else if (tracee_->Unpark(); stops_.reported()) {
    const TraceeStop stop = *stops_.TakeReported();
    if (stop.kind == TraceeStopKind::kSignal) how.signal = stop.signal;
    // Still in the call, whose result is to come.
    how.running = stop.kind == TraceeStopKind::kNewTask || stop.kind == TraceeStopKind::kExec;
    if (stop.kind == TraceeStopKind::kNewTask) {
      engine_->new_tasks().LetGo(this, process_, stop);
      how.stays = stop.vfork;
    }
    if (how.running) tracee_->Resume(ResumeHow::kSyscall, 0);
  } else {
    how.running = true;
  }
  affinity_.Release();  // what it has made gets back what it had itself
  state_ = State::kEnded;
  if (cpu_ != nullptr && !reason.empty()) {
    const uint64_t count = cpu_->count();
    log_.EndSegment(count, cpu_->registers());
    notes_.Gap(count, reason);
  }
  detach->push_back(how);
}

}  // namespace hindsight
