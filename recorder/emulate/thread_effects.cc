// ThreadEngine: what a call means for the memory of other threads and processes.

#include <sys/syscall.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread/instruction_outputs.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/process/pid_namespace.h"
#include "recorder/syscalls/robust_futexes.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// After call_ has returned.
void ThreadEngine::ResyncAfterCall(SyscallOutputs outputs) {
  if (!outputs.known) NoteUnknownMemory(absl::StrCat("system call ", call_->number()));
  if (memory_.ResyncAfterCall(*call_, std::move(outputs))) return;
  NoteUnknownMemory("somebody who is not recorded");
}

void ThreadEngine::NoteUnknownMemory(const std::string& why) {
  notes_.MemoryUnknown(cpu_->count(), why);
  if (!process_->sharing().borrows()) return;
  ThreadEngine* const lender = engine_->tasks().Find(process_->log().manifest().parent_thread);
  if (lender != nullptr) lender->ForgetMemory(why);
}

// Another process may have written anywhere in the memory it borrows.
void ThreadEngine::ForgetMemory(const std::string& why) {
  for (const auto& engine : process_->threads()) engine->memory_.NoteUnknownWrites();
  NoteUnknownMemory(why);
}

void ThreadEngine::ShareRemoteWrites() {
  const auto target = static_cast<pid_t>(call_->arguments()[0]);
  ThreadEngine* const other =
      IsInOurPidNamespace(thread()) ? engine_->tasks().Find(target) : nullptr;
  // It may be the memory of any recorded process, or of none.
  if (other == nullptr) engine_->NoteUntrackedWrites();
  if (other == nullptr || other->process_ == process_ || other->cpu_ == nullptr) return;
  for (const MemoryRange& range : call_->RemoteWrites())
    other->process_->sharing().NoteWritten(range);
}

void ThreadEngine::ReturnBorrowedMemory() {
  if (!process_->sharing().TakeBorrowed()) return;
  ThreadEngine* const lender = engine_->tasks().Find(process_->log().manifest().parent_thread);
  if (lender == nullptr) return;
  for (const MemoryRange& page : pager_.WritablePages())
    lender->process_->sharing().NoteWritten(page);
  ShareWordsAtEnd(lender->process_);
}

bool ThreadEngine::TakeBackLentMemory() {
  bool taken = false;
  for (const CallInFlight::Fork& fork : call_->forks()) {
    if (fork.kind != ForkKind::kVfork || !fork.recorded) continue;
    // It has memory of its own by now, or has ended.
    ThreadEngine* const child = engine_->tasks().Find(fork.process);
    if (child != nullptr) child->ReturnBorrowedMemory();
    taken = true;
  }
  return taken;
}

SyscallOutputs ThreadEngine::OutputsOfCall(const CallInFlight& call, int64_t result) const {
  SyscallOutputs outputs = call.Outputs(result, memory_.Reader());
  if (outputs.shares_memory && result > 0) process_->sharing().NoteLent();
  return outputs;
}

// `task` is being made by the system call the thread is in.
void ThreadEngine::PassTidAddress(pid_t task) {
  ThreadEngine* const made = engine_->tasks().Find(task);
  if (made == nullptr || !call_.has_value()) return;
  made->kernel_words_.OnClone(call_->CloneFlags(), call_->ChildTidAddress());
}

void ThreadEngine::FindRobustMutexes(const CallInFlight& call) {
  const int64_t number = call.number();
  const bool leaves_memory =
      number == SYS_exit_group || number == SYS_execve || number == SYS_execveat;
  const bool ends = number == SYS_exit || (leaves_memory && process_->sharing().borrows());
  kernel_words_.set_robust_mutexes(ends ? RobustFutexes(thread(), memory_.Reader())
                                        : std::vector<MemoryRange>());
}

void ThreadEngine::ShareWordsAtEnd(RecordedProcess* process) {
  for (const MemoryRange& word : kernel_words_.AtEnd()) process->sharing().NoteWritten(word);
}

}  // namespace hindsight
