// ThreadEngine: system calls.

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "recorder/emulate/cpu_time.h"
#include "recorder/emulate/recording.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/process/exec_privileges.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/rseq.h"

namespace hindsight {
namespace {

// How often a call's end is asked for before it is looked whether it sleeps: most calls take less.
constexpr int kPollsBeforeLook = 40;

// Looks after which one that waits for a disk, or a vfork, counts as asleep.
constexpr int kPatience = 4;

// Gone counts as well: the end of a first thread shows only when all others have ended.
bool Sleeps(const std::optional<SchedulingNote>& note, int looks) {
  if (!note.has_value()) return true;
  return note->state == 'S' || note->state == 'Z' || note->state == 'X' ||
         (note->state == 'D' && looks >= kPatience);
}

}  // namespace

// Makes the system call at pc in the process. Signals may come before it, or instead of its end.
void ThreadEngine::RunSystemCall() {
  if (!std::exchange(held_at_call_, false) && EndsAtCall()) {
    held_at_call_ = true;
    return;
  }
  const RegisterFile& at = cpu_->registers();
  SystemCall call = {.number = static_cast<int64_t>(at.gpr[kRax]),
                     .arguments = {at.gpr[kRdi], at.gpr[kRsi], at.gpr[kRdx], at.gpr[kR10],
                                   at.gpr[kR8], at.gpr[kR9]}};
  ToProcess();
  if (LeavesBefore(call)) return;
  if (call.number == SYS_exit && thread() == process_->pid() && !exit_noted_) {
    // The process outlives its first thread, of which nothing more will be seen until it ends.
    exit_noted_ = true;
    log_.Event({.kind = EventKind::kThreadExit, .count = cpu_->count()});
  }
  memory_hashes_.BeforeCall(
      call.number, call.arguments, cpu_->count(),
      process_->SharesMemory() || process_->asynchronous_writes || pager_.has_shared_pages());
  FindWordsAtEnd(call);
  recording_->BeforeCall(thread(), call.number, call.arguments, Reader());
  call_ = std::move(call);
  state_ = State::kWaiting;
  tracee_->Resume(ResumeHow::kSyscall, 0);  // fails if the thread is gone, which its stop tells
}

// With chaos, whether the turn ends at a system call, if somebody else can use it.
bool ThreadEngine::EndsAtCall() {
  TurnScheduler& scheduler = recording_->scheduler();
  if (!scheduler.chaos() || recording_->alone() || !scheduler.EndsAtCall(thread())) return false;
  yields_ = true;
  return true;
}

// The stop the thread waits for; nullopt if it sleeps and others shall have their turn.
std::optional<TraceeStop> ThreadEngine::AwaitStop() {
  if (pending_status_.has_value()) {
    return tracee_->Interpret(*std::exchange(pending_status_, std::nullopt));
  }
  for (int looks = 0; !recording_->end_wanted() && !listening_; ++looks) {
    for (int i = 0; i < kPollsBeforeLook; ++i) {
      if (std::optional<TraceeStop> stop = tracee_->Poll()) return stop;
      sched_yield();
    }
    if (Sleeps(scheduling_.Read(), looks)) break;
    recording_->KeepHouse();
  }
  return std::nullopt;
}

void ThreadEngine::OnStop(TraceeStop stop) {
  listening_ = false;
  switch (stop.kind) {
    case TraceeStopKind::kExited:
      OnExit(stop.wait_status);
      return;
    case TraceeStopKind::kGroupStop:
      OnGroupStop();
      return;
    case TraceeStopKind::kContinued:
      process_->stopped = false;
      break;
    default:
      break;
  }
  if (call_.has_value()) {
    OnCallStop(std::move(stop));
  } else {
    state_ = State::kReady;
  }
}

void ThreadEngine::OnCallStop(TraceeStop stop) {
  int signal = 0;
  switch (stop.kind) {
    case TraceeStopKind::kSyscall:
      call_->inside = !call_->inside;
      call_->interrupted = false;
      if (call_->inside) {
        call_->memory = ArgumentMemory::Take(call_->number, call_->arguments, Reader());
        break;
      }
      if (OnSystemCallExit()) return;
      call_->interrupted = true;
      break;
    case TraceeStopKind::kSignal:
      if (tracee_->Catches(stop.signal)) {
        DeliverSignal(std::move(stop));
        return;
      }
      signal = stop.signal;
      if (call_->interrupted) {
        call_->passed_on.push_back(std::move(stop));
      } else {
        NoteSignal(stop, cpu_->registers());
      }
      break;
    case TraceeStopKind::kExec:
      call_->exec = true;
      break;
    case TraceeStopKind::kNewTask:
      OnNewTask(stop);
      break;
    default:
      break;
  }
  tracee_->Resume(ResumeHow::kSyscall, signal);
}

// Of a call that makes a task.
uint64_t ThreadEngine::CloneFlags(const SystemCall& call) {
  if (call.number == SYS_clone3) return call.memory.Word(call.arguments[0], sizeof(uint64_t));
  return call.number == SYS_clone ? call.arguments[0] : 0;
}

void ThreadEngine::OnNewTask(const TraceeStop& stop) {
  const Recording::NewTask task = recording_->OnNewTask(this, process_, stop, cpu_->count());
  NoteTidAddresses(stop.task);
  if (task.is_thread || !call_.has_value()) return;
  const ForkKind kind = stop.vfork                   ? ForkKind::kVfork
                        : call_->number == SYS_fork  ? ForkKind::kFork
                        : call_->number == SYS_vfork ? ForkKind::kVfork
                                                     : ForkKind::kClone;
  call_->forks.push_back(
      {.kind = EventKind::kFork,
       .number = call_->number,
       .arguments = {static_cast<uint64_t>(kind), task.recorded ? 1u : 0u, CloneFlags(*call_)},
       .result = task.process});
}

// False if the call was interrupted, and what becomes of it shows later.
bool ThreadEngine::OnSystemCallExit() {
  const bool everything = call_->number == SYS_rt_sigreturn || call_->exec;
  RegisterFile after;
  if (!tracee_->GetRegisters(everything, &after)) return false;  // gone
  const auto result = static_cast<int64_t>(after.gpr[kRax]);
  if (IsRestartCode(result) && call_->number != SYS_rt_sigreturn) return false;
  state_ = State::kReady;
  if (call_->exec) {
    FinishExec();
  } else {
    FinishSystemCall();
  }
  const std::optional<SystemCall> call = std::exchange(call_, std::nullopt);
  for (const TraceeStop& earlier : call->passed_on) {
    if (state_ == State::kReady) NoteSignal(earlier, cpu_->registers());
  }
  return true;
}

// The event of the transition that is to be logged next. Events stand before their records in the
// trace: a recorder that dies between the two leaves an event too many, which readers see from the
// last state, and no record that nothing explains.
ProcessEvent ThreadEngine::CallEvent(EventKind kind, uint64_t sequence, const SystemCall& call,
                                     const RegisterFile& after) {
  return {.kind = kind,
          .sequence = sequence,
          .count = cpu_->count() + 1,
          .number = call.number,
          .arguments = std::vector<uint64_t>(call.arguments, call.arguments + 6),
          .result = static_cast<int64_t>(after.gpr[kRax])};
}

void ThreadEngine::FinishSystemCall() {
  after_call_ = true;
  yields_ = call_->number == SYS_sched_yield || EndsAtCall();
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/false, &after)) return;
  const uint64_t sequence = log_.NextSequence();
  log_.Event(CallEvent(EventKind::kSyscall, sequence, *call_, after));
  Transition(after, SideEffect{.kind = SideEffectKind::kSyscall, .sequence = sequence});
  const bool has_lent = TakeBackMemory();
  NoteForks();
  if (MayChangeSignalMask(call_->number)) tracee_->ForgetSignalMask();
  const auto result = static_cast<int64_t>(after.gpr[kRax]);
  recording_->AfterCall(thread(), call_->number, call_->arguments, result, Reader());
  if (result >= 0) {
    AddEmulatedTime(call_->number, call_->arguments,
                    {.thread_ns = emulated_ns_, .process_ns = process_->emulated_ns},
                    tracee_.get());
  }
  const bool affinity =
      call_->number == SYS_sched_getaffinity || call_->number == SYS_sched_setaffinity;
  if (affinity && result >= 0 && recording_->binds_threads()) NoteAffinity();
  process_->limits_time |= result >= 0 && LimitsProcessorTime(call_->number, call_->arguments);
  if (StartsAsynchronousWrites(call_->number) && result >= 0) process_->asynchronous_writes = true;
  if (MayChangeMap(call_->number)) {
    recording_->Keep(process_->ReloadMap(tracee_.get(), &log_, cpu_->count(),
                                         ChangedMapRange(call_->number, call_->arguments, result)));
    pager_.SetSpace(process_->space());
  }
  if (result > 0) TellOfUntracedTask(result);
  NoteNames();
  if (call_->number == SYS_set_tid_address) tid_at_end_ = call_->arguments[0];
  if (call_->number == SYS_rseq) {
    rseq_ = RseqOf(thread());
    runs_natively_next_ = rseq_ != 0;  // it fills in the structure when it gets back to the program
  }
  if (call_->number == SYS_prctl && call_->arguments[0] == PR_SET_TSC) {
    recording_->NoteTscForbidden();
  }
  SyscallOutputs outputs = OutputsOfCall(*call_, result);
  outputs.known |= has_lent;
  if (call_->number == SYS_process_vm_writev && result > 0) NoteWritesToOther();
  ResyncAfterCall(std::move(outputs));
  const char* reason =
      result < 0 && result > -4096 ? nullptr : ReasonNotToRecord(call_->number, call_->arguments);
  if (reason != nullptr) process_->LetGo(reason);
}

void ThreadEngine::TellOfUntracedTask(int64_t task) {
  if (!MakesUntracedTask(call_->number, CloneFlags(*call_))) return;
  recording_->NoteUnrecorded();
  std::fprintf(stderr,
               "hindsight: %s (process %d) has made task %lld with CLONE_UNTRACED: it is not "
               "recorded\n",
               Printable(process_->program()).c_str(), process_->pid(),
               static_cast<long long>(task));
}

// Of itself or another recorded thread.
void ThreadEngine::NoteAffinity() {
  const auto target = static_cast<pid_t>(call_->arguments[0]);
  ThreadEngine* const engine = target == 0 ? this : recording_->Find(target);
  if (engine == nullptr) return;
  if (call_->number == SYS_sched_setaffinity) {
    engine->affinity_.NoteChange();
    return;
  }
  CpuMask told = engine->affinity_.mask();
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/false, &after)) return;
  told.resize(std::min<uint64_t>(told.size(), after.gpr[kRax]));
  tracee_->Write(call_->arguments[2], told);
}

void ThreadEngine::NoteForks() {
  for (ProcessEvent& fork : call_->forks) {
    fork.count = cpu_->count();
    fork.sequence = 0;
    log_.Event(std::move(fork));
  }
}

// The process runs another image now: nothing of the view holds any more.
void ThreadEngine::FinishExec() {
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/true, &after)) return;
  const uint64_t sequence = log_.NextSequence();
  ProcessEvent event = CallEvent(EventKind::kExec, sequence, *call_, after);
  event.result = 0;
  event.text = ExecutablePath(thread());
  log_.Event(std::move(event));
  Transition(after, Discontinuity{.kind = DiscontinuityKind::kExec, .sequence = sequence});
  ReturnMemory();
  pager_.Reset();
  cpu_->CheckAlignment();
  process_->OnExec();
  if (!tracee_->Is64Bit()) {
    process_->LetGo("started a program that is not for x86-64");
    return;
  }
  recording_->Keep(process_->OpenImage(tracee_.get()));
  tracee_->UseCommitArea(process_->commit_area());
  pager_.SetSpace(process_->space());
  process_->LogWholeMap(&log_, cpu_->count());
  NoteName();
  rseq_ = RseqOf(thread());
  tid_at_end_ = 0;
  recording_->Keep(process_->WriteFullKeyframe(this, /*with_memory=*/true));
}

void ThreadEngine::TakeOverExec(ThreadEngine* by) {
  SystemCall call = {.number = SYS_execve};
  if (by != nullptr && by->call_.has_value()) call = *std::move(by->call_);
  call.inside = call.exec = true;
  call.interrupted = false;
  call.passed_on.clear();
  if (by != nullptr) {
    affinity_.TakeOver(by->affinity_);
    by->OnExit(0);
  }
  FindWordsAtEnd(call);
  call_ = std::move(call);
  state_ = State::kWaiting;
  exit_noted_ = false;
  after_call_ = false;
  tracee_->ForgetRegisters();
}

// Ends the recording of what cannot be recorded, before it is done, and lets the process do it.
bool ThreadEngine::LeavesBefore(const SystemCall& call) {
  std::string what;
  const TraceCall trace = TracesOthers(call.number, call.arguments);
  if (trace.kind == TraceCall::Kind::kTraceMe) {
    what = "is going to be traced by its parent (ptrace)";
  } else if (trace.kind == TraceCall::Kind::kAttach) {
    // A task has one tracer only.
    recording_->LetGoOf(trace.target, "another recorded process traces it (ptrace)");
  } else if (call.number == SYS_execve || call.number == SYS_execveat) {
    what = ReasonNotToExec(call);
  } else if (RestrictsSystemCalls(call.number, call.arguments)) {
    recording_->Keep(process_->UnpatchVdso(this));
  }
  if (state_ == State::kEnded) return true;  // it traces one of its own threads
  if (what.empty()) return false;
  process_->LetGo(what);
  return true;
}

std::string ThreadEngine::ReasonNotToExec(const SystemCall& call) const {
  if (MayTracePrivileged()) return "";
  const bool at = call.number == SYS_execveat;
  const std::string path = ReadPath(call.arguments[at ? 1 : 0]);
  const int directory = at ? static_cast<int>(call.arguments[0]) : AT_FDCWD;
  const int flags = at ? static_cast<int>(call.arguments[4]) : 0;
  const std::string lost = PrivilegesLostByExec(process_->pid(), directory, path, flags);
  if (lost.empty()) return "";
  return absl::StrCat("executes ", path, ", which ", lost, " and would not be if it were recorded");
}

// A string of the program's, as far as it can be read.
std::string ThreadEngine::ReadPath(uint64_t address) const {
  std::string path;
  char byte = 0;
  while (
      path.size() < PATH_MAX &&
      tracee_->Read(address + path.size(), absl::MakeSpan(reinterpret_cast<uint8_t*>(&byte), 1)) &&
      byte != '\0') {
    path.push_back(byte);
  }
  return path;
}

// A thread's name is changed by itself, or through /proc by another.
void ThreadEngine::NoteNames() {
  const bool own = call_->number == SYS_prctl && call_->arguments[0] == PR_SET_NAME;
  if (call_->number == SYS_openat && absl::EndsWith(ReadPath(call_->arguments[1]), "/comm")) {
    process_->names_may_change = true;
  }
  const bool others = call_->number == SYS_close && process_->names_may_change;
  if (others) process_->names_may_change = false;
  for (const auto& engine : process_->threads()) {
    if ((own && engine.get() == this) || (others && engine->begun())) engine->NoteName();
  }
}

void ThreadEngine::NoteName() {
  const std::string name = Name();
  if (name == std::exchange(name_, name)) return;
  log_.Event({.kind = EventKind::kThreadName, .count = cpu_->count(), .text = name});
}

}  // namespace hindsight
