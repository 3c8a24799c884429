// ThreadEngine: what the kernel has done to the process's memory.

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread/instruction_outputs.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/process/process_facts.h"
#include "recorder/syscalls/output_trust.h"
#include "recorder/syscalls/robust_futexes.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {
// After the thread has run natively, or others have: brings the view up to date. False if memory
// was found to be changed that `effects` do not tell of.
bool ThreadEngine::Resync(SyscallOutputs effects, ProcessPager::Compare compare) {
  if (const auto rseq = kernel_words_.Rseq()) effects.written.push_back(*rseq);
  pager_.set_written_elsewhere(process_->sharing().written_elsewhere());
  effects.known = std::exchange(others_.known, true) && effects.known;
  if (std::exchange(follows_, false)) effects.Add(std::exchange(others_, {}));
  for (const MemoryRange& range : process_->sharing().TakeWritten())
    effects.written.push_back(range);
  const bool told = pager_.Resync(effects, effects.known ? compare : ProcessPager::Compare::kAll);
  if (!process_->sharing().many_threads()) return told;
  for (const auto& engine : process_->threads()) {
    if (engine.get() != this && engine->begun()) engine->others_.Add(effects);
  }
  return told;
}

// After call_ has returned.
void ThreadEngine::ResyncAfterCall(SyscallOutputs outputs) {
  if (!outputs.known) NoteUnknownMemory(absl::StrCat("system call ", call_->number()));
  const ProcessPager::Compare compare = ComparedAfterCall(outputs);
  if (Resync(std::move(outputs), compare)) return;
  process_->sharing().StopTrusting();
  NoteUnknownMemory("somebody who is not recorded");
}

// Of the file that the call acts on, if it acts on one. Costs a system call.
FileKind ThreadEngine::KindOfCallsFile(const CallInFlight& call) const {
  const std::optional<int> file = ActsOn(call.number(), call.arguments());
  if (!file.has_value()) return FileKind::kOrdinary;
  return KindOfFile(tracee_->ProcPath(absl::StrCat("fd/", *file).c_str()));
}

// What the call means for trusting the outputs of later ones. True: its own can be trusted.
bool ThreadEngine::NoteTrust(const CallInFlight& call, const SyscallOutputs& outputs) {
  // Who has given the kernel or a driver memory to store to later has done so by such a call.
  if (!outputs.known || LetsOthersStore(call.number(), call.arguments())) {
    process_->sharing().StopTrusting();
  }
  const bool may_write_memory = outputs.writes_files && !engine_->writes_memory();
  if (!may_write_memory && !process_->TrustsOutputs()) return false;
  const FileKind kind = KindOfCallsFile(call);
  if (kind == FileKind::kMemory && may_write_memory) engine_->NoteMemoryWritten();
  if (kind == FileKind::kDevice) process_->sharing().StopTrusting();
  return kind == FileKind::kOrdinary && process_->TrustsOutputs() &&
         StoresAsTold(call.number(), call.arguments());
}

ProcessPager::Compare ThreadEngine::ComparedAfterCall(const SyscallOutputs& outputs) {
  using Compare = ProcessPager::Compare;
  constexpr size_t kFewPages = 16;
  constexpr uint32_t kCallsPerProbe = 64;
  if (!NoteTrust(*call_, outputs) || pager_.pages_in_use() < kFewPages) return Compare::kAll;
  return probe_random_() % kCallsPerProbe == 0 ? Compare::kProbe : Compare::kOutputs;
}

// After the thread has run natively where nothing else can have changed memory: on which processor
// that was the kernel has stored.
void ThreadEngine::ResyncRseq() {
  const uint64_t rseq = kernel_words_.rseq();
  if (rseq != 0) pager_.ResyncPages({rseq / kPageBytes * kPageBytes});
}

// At the beginning of a turn: takes what others have done since the last one.
void ThreadEngine::TakeChangesOfOthers() {
  pager_.FollowOthers();
  if (pending_status_.has_value()) {
    // The call that it waited for is done: what memory holds is looked at once that is logged.
    follows_ = true;
    return;
  }
  SyscallOutputs effects = std::exchange(others_, {});
  effects.written = process_->sharing().TakeWritten();
  pager_.set_written_elsewhere(process_->sharing().written_elsewhere());
  pager_.Resync(effects);
}

void ThreadEngine::NoteUnknownMemory(const std::string& why) {
  notes_.MemoryUnknown(cpu_->count(), why);
  if (!process_->sharing().borrows()) return;
  ThreadEngine* const lender = engine_->tasks().Find(process_->log().manifest().parent_thread);
  if (lender != nullptr) lender->ForgetMemory(why);
}

// Somebody else may have written anywhere.
void ThreadEngine::ForgetMemory(const std::string& why) {
  for (const auto& engine : process_->threads()) engine->others_.known = false;
  NoteUnknownMemory(why);
}

void ThreadEngine::NoteWritesToOther() {
  const auto target = static_cast<pid_t>(call_->arguments()[0]);
  ThreadEngine* const other =
      IsInOurPidNamespace(thread()) ? engine_->tasks().Find(target) : nullptr;
  // Whose memory that is nobody knows, if it is a recorded process's at all.
  if (other == nullptr) engine_->NoteMemoryWritten();
  if (other == nullptr || other->process_ == process_ || other->cpu_ == nullptr) return;
  for (const MemoryRange& range : call_->RemoteWrites())
    other->process_->sharing().NoteWritten(range);
}

void ThreadEngine::ReturnMemory() {
  if (!process_->sharing().TakeBorrowed()) return;
  ThreadEngine* const lender = engine_->tasks().Find(process_->log().manifest().parent_thread);
  if (lender == nullptr) return;
  for (const MemoryRange& page : pager_.WritablePages())
    lender->process_->sharing().NoteWritten(page);
  NoteWordsAtEnd(lender->process_);
}

bool ThreadEngine::TakeBackMemory() {
  bool taken = false;
  for (const CallInFlight::Fork& fork : call_->forks()) {
    if (fork.kind != ForkKind::kVfork || !fork.recorded) continue;
    // It has memory of its own by now, or has ended.
    ThreadEngine* const child = engine_->tasks().Find(fork.process);
    if (child != nullptr) child->ReturnMemory();
    taken = true;
  }
  return taken;
}

ReadMemory ThreadEngine::Reader() const {
  return [this](uint64_t address, absl::Span<uint8_t> out) {
    return tracee_->memory().Read(address, out);
  };
}

SyscallOutputs ThreadEngine::OutputsOfCall(const CallInFlight& call, int64_t result) const {
  SyscallOutputs outputs = call.Outputs(result, Reader());
  if (outputs.shares_memory && result > 0) process_->sharing().NoteLent();
  return outputs;
}

// Of the signal whose handler begins with these registers.
SyscallOutputs ThreadEngine::OutputsOfFrame(const RegisterFile& handler) const {
  SyscallOutputs outputs;
  outputs.written = {SignalFrame(handler.gpr[kRsp], handler.gpr[kRdx], Reader())};
  return outputs;
}

// Of the instruction at before.rip, which the thread itself has executed.
SyscallOutputs ThreadEngine::OutputsOfStep(const RegisterFile& before) const {
  std::array<uint8_t, 15> code;
  size_t size = code.size();
  // It may end where memory does.
  while (size > 0 && !tracee_->memory().Read(before.rip, absl::MakeSpan(code.data(), size))) --size;
  return OutputsOfInstruction(absl::MakeConstSpan(code.data(), size), before);
}

// `task` is being made by the system call the thread is in.
void ThreadEngine::PassTidAddress(pid_t task) {
  ThreadEngine* const made = engine_->tasks().Find(task);
  if (made == nullptr || !call_.has_value()) return;
  made->kernel_words_.OnClone(call_->CloneFlags(), call_->ChildTidAddress());
}

void ThreadEngine::FindWordsAtEnd(const CallInFlight& call) {
  const int64_t number = call.number();
  const bool leaves_memory =
      number == SYS_exit_group || number == SYS_execve || number == SYS_execveat;
  const bool ends = number == SYS_exit || (leaves_memory && process_->sharing().borrows());
  kernel_words_.set_robust_mutexes(ends ? RobustFutexes(thread(), Reader())
                                        : std::vector<MemoryRange>());
}

void ThreadEngine::NoteWordsAtEnd(RecordedProcess* process) {
  for (const MemoryRange& word : kernel_words_.AtEnd()) process->sharing().NoteWritten(word);
}

}  // namespace hindsight
