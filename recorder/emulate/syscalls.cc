// ThreadEngine: system calls.

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread/cpu_time.h"
#include "recorder/emulate/thread/exec_refusal.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/emulate/trap_flag.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/rseq.h"
#include "recorder/ptrace/thread_facts.h"
#include "recorder/syscalls/trusted_calls.h"

namespace hindsight {

// Makes the system call at pc in the process. Signals may come before it, or instead of its end.
void ThreadEngine::RunSystemCall() {
  if (!std::exchange(held_at_call_, false) && EndsTurnAtCall()) {
    held_at_call_ = true;
    return;
  }
  CallInFlight call(cpu_->registers());
  if (MustWaitToTrace(call)) return;
  CommitToProcess();
  if (EndsRecordingBefore(call)) return;
  if (call.number() == SYS_exit && thread() == process_->pid()) {
    // The process outlives its first thread, whose exit the kernel reports only at the end.
    notes_.Exit(cpu_->count());
  }
  // What the kernel stores as the thread ends is of this state, too.
  if (call.number() != SYS_exit) {
    memory_hashes_.LogSent(call.number(), call.arguments(), cpu_->count(),
                           process_->sharing().shared() || process_->sharing().asynchronous() ||
                               pager_.has_shared_pages());
  }
  FindRobustMutexes(call);
  engine_->session().progress().BeforeCall(thread(), call.number(), call.arguments(),
                                           memory_.Reader());
  call_ = std::move(call);
  disturbed_.Begin(engine_->session().NowNs());
  state_ = State::kWaiting;
  tracee_->Resume(ResumeHow::kSyscall, 0);  // fails if the thread is gone: its stop says so
}

// With chaos, whether the turn ends at a system call, if another thread can run.
bool ThreadEngine::EndsTurnAtCall() {
  if (!chaos_.EndsAtCall(thread(), engine_->alone())) return false;
  yields_ = true;
  return true;
}

// The stop the thread waits for; nullopt if it sleeps: then others get a turn.
std::optional<TraceeStop> ThreadEngine::AwaitStop() {
  return stops_.Await([this] { return !engine_->session().end_wanted(); },
                      [this] {
                        engine_->Tick();
                        SnapshotIfDue();
                      },
                      [this] { return call_.has_value() && call_->Acts(memory_.Reader()); });
}

void ThreadEngine::OnStop(TraceeStop stop) {
  switch (stop.kind) {
    case TraceeStopKind::kExited:
      OnExit(stop.wait_status);
      return;
    case TraceeStopKind::kGroupStop:
      OnGroupStop();
      return;
    case TraceeStopKind::kContinued:
      if (IsStoppedAgain()) return;
      break;
    default:
      break;
  }
  if (call_.has_value()) {
    OnCallStop(std::move(stop));
  } else {
    state_ = State::kReady;
    after_call_ = true;  // the handler of SIGCONT comes before the next instruction
  }
}

void ThreadEngine::OnCallStop(TraceeStop stop) {
  int signal = 0;
  switch (stop.kind) {
    case TraceeStopKind::kSyscall:
      if (!call_->OnSyscallStop(memory_.Reader())) break;
      if (OnSystemCallExit()) return;
      call_->MarkInterrupted();
      break;
    case TraceeStopKind::kSignal:
      SnapshotBeforeSignal(stop.signal);
      if (tracee_->signals().Catches(stop.signal)) {
        if (call_->interrupted()) disturbed_.TakeBack();
        DeliverSignal(std::move(stop));
        return;
      }
      signal = stop.signal;
      process_->NoteSignal(signal);
      if (call_->interrupted()) {
        call_->HoldSignal(std::move(stop));
      } else {
        transitions_.Signal(stop);
      }
      break;
    case TraceeStopKind::kExec:
      call_->MarkExec();
      break;
    case TraceeStopKind::kNewTask:
      OnNewTask(stop);
      break;
    default:
      break;
  }
  tracee_->Resume(ResumeHow::kSyscall, signal);
}

void ThreadEngine::OnNewTask(const TraceeStop& stop) {
  const NewTask task = engine_->new_tasks().OnBirth(this, process_, stop, cpu_->count());
  PassTidAddress(stop.task);
  if (task.is_thread || !call_.has_value()) return;
  call_->AddFork(stop, task.process, task.recorded);
}

// False if the call was interrupted: later stops show whether it is made again.
bool ThreadEngine::OnSystemCallExit() {
  RegisterFile after;
  if (!tracee_->GetRegisters(call_->ChangesAllRegisters(), &after)) return false;  // gone
  if (call_->IsInterruptedBy(static_cast<int64_t>(after.gpr[kRax]))) return false;
  if (disturbed_.MakeAgain(call_->number(), after, engine_->session().NowNs(),
                           process_->sharing().many_threads() && !process_->stopping())) {
    if (const auto end_ns = disturbed_.end_ns()) engine_->call_ends().Add(thread(), *end_ns);
    return false;
  }
  disturbed_.Finish();
  state_ = State::kReady;
  if (call_->is_exec()) {
    FinishExec();
  } else {
    FinishSystemCall();
  }
  std::optional<CallInFlight> call = std::exchange(call_, std::nullopt);
  for (const TraceeStop& earlier : call->TakeHeldSignals()) {
    if (state_ == State::kReady) transitions_.Signal(earlier);
  }
  if (state_ == State::kReady) SnapshotAfterCall(*call);
  return true;
}

void ThreadEngine::EndCallIfOver() {
  const auto end_ns = disturbed_.end_ns();
  if (state_ != State::kWaiting || !call_.has_value() || !end_ns.has_value()) return;
  if (*end_ns <= engine_->session().NowNs()) tracee_->Interrupt();
}

void ThreadEngine::FinishSystemCall() {
  after_call_ = true;
  yields_ = call_->number() == SYS_sched_yield || EndsTurnAtCall();
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/false, &after)) return;
  transitions_.SystemCall(*call_, after);
  const bool has_lent = TakeBackLentMemory();
  transitions_.Forks(*call_);
  if (MayChangeSignalMask(call_->number())) tracee_->signals().Forget();
  const auto result = static_cast<int64_t>(after.gpr[kRax]);
  engine_->session().progress().AfterCall(thread(), call_->number(), call_->arguments(), result,
                                          memory_.Reader());
  if (result >= 0) {
    AddEmulatedTime(call_->number(), call_->arguments(),
                    {.thread_ns = time_.ns(), .process_ns = process_->time().ns()}, tracee_.get());
  }
  const bool affinity =
      call_->number() == SYS_sched_getaffinity || call_->number() == SYS_sched_setaffinity;
  if (affinity && result >= 0 && engine_->binds_threads()) FollowAffinityCall();
  if (result >= 0 && LimitsProcessorTime(call_->number(), call_->arguments()))
    process_->time().NoteLimited();
  if (StartsAsynchronousWrites(call_->number()) && result >= 0)
    process_->sharing().NoteAsynchronous();
  if (MayChangeMap(call_->number())) {
    ReloadMap(ChangedMapRange(call_->number(), call_->arguments(), result));
  }
  if (result > 0) ReportUntracedTask(result);
  LogNameChanges();
  if (call_->number() == SYS_set_tid_address) kernel_words_.set_tid_at_end(call_->arguments()[0]);
  if (call_->number() == SYS_rseq) {
    kernel_words_.set_rseq(RseqOf(thread()));
    // The kernel fills in the structure when it returns to the program.
    runs_natively_next_ = kernel_words_.rseq() != 0;
  }
  // Its handler comes first, also where the call's own mask let the signal through.
  runs_natively_next_ |= result == -EINTR && SaysEintrWithoutReason(call_->number());
  if (call_->number() == SYS_prctl && call_->arguments()[0] == PR_SET_TSC) {
    engine_->NoteTscForbidden();
  }
  SyscallOutputs outputs = OutputsOfCall(*call_, result);
  outputs.known |= has_lent;
  if (call_->number() == SYS_process_vm_writev && result > 0) ShareRemoteWrites();
  ResyncAfterCall(std::move(outputs));
  const char* reason = result < 0 && result > -4096
                           ? nullptr
                           : ReasonNotToRecord(call_->number(), call_->arguments());
  if (reason != nullptr) process_->LetGo(reason);
}

void ThreadEngine::ReportUntracedTask(int64_t task) {
  if (!MakesUntracedTask(call_->number(), call_->CloneFlags())) return;
  engine_->session().NoteUnrecorded();
  // It may be a thread, which stores at any time.
  process_->sharing().StopTrusting();
  std::fprintf(stderr,
               "hindsight: %s (process %d) has made task %lld with CLONE_UNTRACED: it is not "
               "recorded\n",
               Printable(process_->image().program()).c_str(), process_->pid(),
               static_cast<long long>(task));
}

// After a call that gets or sets the affinity of this or another recorded thread.
void ThreadEngine::FollowAffinityCall() {
  const auto target = static_cast<pid_t>(call_->arguments()[0]);
  ThreadEngine* const engine = target == 0 ? this : engine_->tasks().Find(target);
  if (engine == nullptr) return;
  if (call_->number() == SYS_sched_setaffinity) {
    engine->affinity_.NoteChange();
    return;
  }
  CpuMask reported = engine->affinity_.mask();
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/false, &after)) return;
  reported.resize(std::min<uint64_t>(reported.size(), after.gpr[kRax]));
  tracee_->memory().Write(call_->arguments()[2], reported);
}

// The process runs another image now: the view is emptied.
void ThreadEngine::FinishExec() {
  RegisterFile after;
  if (!tracee_->GetRegisters(/*vectors=*/true, &after)) return;
  const std::string program = ExecutablePath(thread());
  transitions_.Exec(*call_, program, after);
  ReturnBorrowedMemory();
  pager_.Reset();
  cpu_->CheckAlignment();
  process_->OnExec(program);
  if (!Is64Bit(tracee_->thread())) {
    process_->LetGo("started a program that is not for x86-64");
    return;
  }
  engine_->session().Keep(process_->image().Open(tracee_.get()));
  tracee_->UseCommitArea(process_->image().commit_area());
  pager_.SetSpace(process_->image().space());
  process_->image().LogWholeMap(&log_, cpu_->count());
  notes_.Name(cpu_->count());
  kernel_words_.set_rseq(RseqOf(thread()));
  kernel_words_.set_tid_at_end(0);
  engine_->session().Keep(process_->WriteFullKeyframe(this, /*with_memory=*/true));
}

void ThreadEngine::TakeOverExec(ThreadEngine* by) {
  CallInFlight call =
      CallInFlight::OfExec(by == nullptr ? std::nullopt : std::exchange(by->call_, std::nullopt));
  if (by != nullptr) {
    affinity_.TakeOver(by->affinity_);
    by->OnExit(0);
  }
  FindRobustMutexes(call);
  call_ = std::move(call);
  state_ = State::kWaiting;
  notes_.ForgetExit();
  after_call_ = false;
  tracee_->ForgetRegisters();
}

// Whom it is going to trace must have been let go of, which takes until none of its threads waits
// for a child of vfork. Not for ever: the child may wait for this thread.
bool ThreadEngine::MustWaitToTrace(const CallInFlight& call) {
  constexpr int kMostWaits = 1000;
  constexpr useconds_t kWaitUs = 1000;
  const TraceCall trace = TracesOthers(call.number(), call.arguments());
  if (trace.kind != TraceCall::Kind::kAttach || waits_to_trace_ == kMostWaits ||
      !engine_->tasks().WaitsForChild(trace.target)) {
    waits_to_trace_ = 0;
    return false;
  }
  ++waits_to_trace_;
  yields_ = true;
  usleep(kWaitUs);
  return true;
}

// Ends the recording before a call that cannot be recorded; the process then makes it natively.
bool ThreadEngine::EndsRecordingBefore(const CallInFlight& call) {
  std::string what;
  const TraceCall trace = TracesOthers(call.number(), call.arguments());
  if (trace.kind == TraceCall::Kind::kTraceMe) {
    what = "is going to be traced by its parent (ptrace)";
  } else if (trace.kind == TraceCall::Kind::kAttach) {
    // A task has one tracer only.
    engine_->tasks().LetGoOf(trace.target, "another recorded process traces it (ptrace)");
  } else if (RestrictsSystemCalls(call.number(), call.arguments())) {
    engine_->session().Keep(process_->UnpatchVdso(this));
  } else if (call.number() == SYS_rt_sigreturn &&
             ReturnsToTrapFlag(sync_.registers(), memory_.Reader())) {
    what = kTrapFlagReason;
  }
  if (state_ == State::kEnded) return true;  // it traces one of its own threads
  if (what.empty()) what = ReasonNotToExec(call, process_->pid(), memory_.Reader());
  if (what.empty()) return false;
  process_->LetGo(what);
  return true;
}

// After a call by which the thread may have changed its name, or through /proc another's.
void ThreadEngine::LogNameChanges() {
  const bool own = call_->number() == SYS_prctl && call_->arguments()[0] == PR_SET_NAME;
  if (call_->number() == SYS_openat &&
      absl::EndsWith(ReadPath(call_->arguments()[1], memory_.Reader()), "/comm")) {
    process_->set_names_may_change(true);
  }
  const bool others = call_->number() == SYS_close && process_->names_may_change();
  if (others) process_->set_names_may_change(false);
  for (const auto& engine : process_->threads()) {
    if ((own && engine.get() == this) || (others && engine->begun())) {
      engine->notes_.Name(engine->count());
    }
  }
}

}  // namespace hindsight
