// Engine: the end of a recording.

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "recorder/engine.h"

namespace hindsight {

void Engine::OnExit(int wait_status) {
  ended_ = true;
  result_.wait_status = wait_status;
  const uint64_t count = cpu_->count();
  log_.EndSegment(count, cpu_->registers());
  log_.Event({.kind = EventKind::kThreadExit, .count = count});
  log_.Event({.kind = EventKind::kProcessExit, .count = count, .number = wait_status});
}

// The process was killed while it was not it that ran: what it was before cannot be read any more.
// The recording ends with the last state that is in the log.
void Engine::OnVanished() {
  const bool hashed = hashed_count_ > sync_count_;
  cpu_->SetRegisters(hashed ? hashed_registers_ : sync_registers_);
  cpu_->set_count(hashed ? hashed_count_ : sync_count_);
  OnExit(tracee_->WaitForExit([this] { KeepHouse(); }));
}

// Ends the recording before something that cannot be recorded, and lets the process do it alone.
void Engine::LeaveAlone(const std::string& what) {
  ToProcess();
  const uint64_t count = cpu_->count();
  result_.end_reason = absl::StrCat(program_, " ", what, " at ", Position());
  std::fprintf(stderr, "hindsight: %s: not supported yet; the recording ends here\n",
               result_.end_reason.c_str());
  log_.EndSegment(count, cpu_->registers());
  log_.Event({.kind = EventKind::kGap, .count = count, .text = result_.end_reason});
  log_.Keep(writer_->Flush());
  ended_ = true;
  tracee_->Detach();
  result_.wait_status = tracee_->WaitForExit(nullptr);
}

}  // namespace hindsight
