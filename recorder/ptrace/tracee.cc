#include "recorder/ptrace/tracee.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "isa/host_registers.h"
#include "recorder/ptrace/launch.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

// Whether a SIGTRAP with this si_code means single-stepping: the trap itself, the end of a
// stepped system call, a signal frame just built.
bool IsStepTrap(int code) { return code == TRAP_TRACE || code == TRAP_BRKPT || code == SIGTRAP; }

// Nanoseconds on a processor, as /proc/TID/schedstat reports.
uint64_t UsedTime(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[64] = {};
  if (!fd.valid() || read(fd.get(), text, sizeof(text) - 1) <= 0) return 0;
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

uintptr_t TraceOptions() {
  return PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE |
         PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
}

absl::StatusOr<std::unique_ptr<Tracee>> Tracee::Launch(const ExecCommand& command,
                                                       AddressLayout layout) {
  ASSIGN_OR_RETURN(const pid_t pid, LaunchTraced(command, layout));
  return std::unique_ptr<Tracee>(new Tracee(pid, pid, /*owned=*/true));
}

std::unique_ptr<Tracee> Tracee::Adopt(pid_t process, pid_t thread) {
  return std::unique_ptr<Tracee>(new Tracee(process, thread, /*owned=*/false));
}

Tracee::Tracee(pid_t process, pid_t thread, bool owned)
    : process_(process),
      thread_(thread),
      memory_(thread),
      signals_(process, thread),
      owned_(owned),
      vectors_(XstateBytes()) {}

Tracee::~Tracee() {
  UseCommitArea(nullptr);
  if (exited_ || !owned_) return;
  kill(process_, SIGKILL);
  std::optional<WaitStatus> status;
  do {
    status = WaitForThread(thread_);
  } while (status.has_value() && status->stopped());
}

std::string Tracee::ProcPath(const char* name) const {
  return absl::StrCat("/proc/", thread_, "/", name);
}

bool Tracee::IsStopped() const {
  uint64_t mask;
  return ptrace(PTRACE_GETSIGMASK, thread_, TraceeSignals::kSetBytes, &mask) == 0;
}

void Tracee::UseCommitArea(CommitArea* area) {
  if (slot_.has_value()) area_->GiveBack(*slot_);
  area_ = area;
  slot_ = area == nullptr ? std::nullopt : area->TakeSlot();
}

bool Tracee::Commit(absl::Span<const MemoryPiece> pieces, const RegisterFile& registers) {
  if (!slot_.has_value()) return memory_.WritePieces(pieces) == pieces.size();
  if (!Park()) return false;
  committed_ = registers;
  RegistersToGeneral(registers, &general_);
  std::vector<uint8_t> vectors = vectors_;
  RegistersToXstate(registers, absl::MakeSpan(vectors));
  const ThreadContext after = ContextOf(vectors, signals_.last_mask());
  std::vector<MemoryPiece> plan = area_->PlanCommit(*slot_, after, pieces);
  if (!plan.empty()) return memory_.WritePieces(plan) == plan.size();
  // Too much for the area.
  if (memory_.WritePieces(pieces) != pieces.size()) return false;
  plan = area_->PlanPark(*slot_, after);
  return memory_.WritePieces(plan) == plan.size();
}

// A thread may be stopped between two instructions for long: it must not be in a stop that is the
// end of a single step, of whose SIGTRAP it would die with its tracer.
void Tracee::LeaveTrap() {
  if (slot_.has_value()) held_status_ = LeaveStepTrap(thread_);
}

// A thread may be in a group stop for long as well. The step that it was to make would stay
// requested if its tracer died: it would die of that SIGTRAP when it is continued.
TraceeStop Tracee::WithoutStep(TraceeStop stop) {
  if (!slot_.has_value() || std::exchange(how_, ResumeHow::kSyscall) != ResumeHow::kStep) {
    return stop;
  }
  return StopAnew().value_or(TraceeStop{.kind = TraceeStopKind::kContinued, .signal = SIGTRAP});
}

ThreadContext Tracee::ContextOf(absl::Span<const uint8_t> vectors, uint64_t mask) {
  ThreadContext context = {.general = general_, .vectors = vectors, .signal_mask = mask};
  constexpr std::array<uint8_t, 2> kSyscall = {0x0f, 0x05};
  if (std::array<uint8_t, 2> code; general_.rax == SYS_restart_syscall) {
    context.restarts_call = memory_.Read(general_.rip, absl::MakeSpan(code)) && code == kSyscall;
  }
  return context;
}

// Has the thread's real registers point into the commit area.
bool Tracee::Park() {
  if (parked_) return true;
  if (!slot_.has_value() || !GetRegisters(/*vectors=*/false, &committed_)) return false;
  const uint64_t mask = signals_.mask();
  const std::vector<MemoryPiece> plan = area_->PlanPark(*slot_, ContextOf(vectors_, mask));
  user_regs_struct parked = area_->Parked(*slot_, general_);
  parked_ = signals_.known() && memory_.WritePieces(plan) == plan.size() &&
            ptrace(PTRACE_SETREGS, thread_, nullptr, &parked) == 0 && signals_.BlockAll();
  return parked_;
}

void Tracee::ParkIfCallEnded() {
  if (parked_ || !slot_.has_value()) return;
  __ptrace_syscall_info info = {};
  // Fails if it is not stopped.
  if (ptrace(PTRACE_GET_SYSCALL_INFO, thread_, sizeof(info), &info) <= 0) return;
  // The kernel has more to do with a call that was interrupted.
  constexpr int64_t kLowestRestartCode = -516;
  if (info.op != PTRACE_SYSCALL_INFO_EXIT) return;
  if (info.exit.rval >= kLowestRestartCode && info.exit.rval <= -512) return;
  Park();
}

void Tracee::Unpark() {
  if (parked_) Unpark(general_);
}

bool Tracee::Unpark(const user_regs_struct& general) {
  parked_ = false;
  return signals_.PutBack() && ptrace(PTRACE_SETREGS, thread_, nullptr, &general) == 0;
}

bool Tracee::LoadVectors() {
  iovec buffer = {vectors_.data(), vectors_.size()};
  vectors_known_ = ptrace(PTRACE_GETREGSET, thread_, NT_X86_XSTATE, &buffer) == 0 &&
                   XstateToRegisters({vectors_.data(), buffer.iov_len}, &known_);
  return vectors_known_;
}

bool Tracee::GetRegisters(bool vectors, RegisterFile* out) {
  if (!general_known_) {
    if (ptrace(PTRACE_GETREGS, thread_, nullptr, &general_) != 0) return false;
    general_known_ = true;
  }
  if ((!vectors_known_ || vectors) && !LoadVectors()) return false;
  GeneralToRegisters(general_, &known_);
  *out = known_;
  return true;
}

bool Tracee::SetRegisters(const RegisterFile& registers) {
  RegisterFile now;
  if (!GetRegisters(/*vectors=*/false, &now)) return false;
  const size_t vectors_at = offsetof(RegisterFile, mxcsr);
  const char* wanted = reinterpret_cast<const char*>(&registers);
  const char* actual = reinterpret_cast<const char*>(&now);
  // A parked thread needs no vector registers: they are in its frame. So they come first.
  if (std::memcmp(wanted + vectors_at, actual + vectors_at, sizeof(now) - vectors_at) != 0) {
    RegistersToXstate(registers, absl::MakeSpan(vectors_));
    iovec buffer = {vectors_.data(), vectors_.size()};
    if (ptrace(PTRACE_SETREGSET, thread_, NT_X86_XSTATE, &buffer) != 0) return false;
    known_ = registers;
  }
  if (parked_) {
    RegistersToGeneral(registers, &general_);
    return Unpark(general_);
  }
  if (std::memcmp(wanted, actual, vectors_at) != 0 ||
      static_cast<long long>(general_.orig_rax) >= 0) {
    RegistersToGeneral(registers, &general_);
    if (ptrace(PTRACE_SETREGS, thread_, nullptr, &general_) != 0) return false;
  }
  return true;
}

bool Tracee::Resume(ResumeHow how, int signal) {
  if (parked_ && !SetRegisters(committed_)) return false;
  if (held_status_.has_value()) return true;
  how_ = how;
  if (how == ResumeHow::kStep) signals_.BeforeStep(signal);
  general_known_ = false;
  const auto request = how == ResumeHow::kStep ? PTRACE_SINGLESTEP : PTRACE_SYSCALL;
  return ptrace(request, thread_, nullptr, signal) == 0;
}

bool Tracee::Listen() { return ptrace(PTRACE_LISTEN, thread_, nullptr, nullptr) == 0; }

TraceeStop Tracee::Wait(const std::function<void()>& on_tick) {
  if (held_status_.has_value()) return Interpret(*std::exchange(held_status_, std::nullopt));
  int status;
  while (waitpid(thread_, &status, __WALL) < 0) {
    CHECK(errno == EINTR);  // it is our child, and not reaped
    if (on_tick) on_tick();
  }
  return Interpret(status);
}

std::optional<TraceeStop> Tracee::Poll() {
  if (held_status_.has_value()) return Interpret(*std::exchange(held_status_, std::nullopt));
  int status;
  if (waitpid(thread_, &status, __WALL | WNOHANG) != thread_) return std::nullopt;
  return Interpret(status);
}

TraceeStop Tracee::InterpretEvent(const WaitStatus& status) {
  TraceeStop stop;
  stop.signal = status.signal;
  if (status.is_event_stop()) {
    stop.kind = status.group_stop() == 0 ? TraceeStopKind::kContinued : TraceeStopKind::kGroupStop;
    return stop;
  }
  stop.task = TaskOfEvent(thread_);
  if (status.is_exec()) {
    ForgetRegisters();
    stop.kind = TraceeStopKind::kExec;
  } else {  // PTRACE_EVENT_FORK, _VFORK, _CLONE
    stop.kind = TraceeStopKind::kNewTask;
    stop.vfork = status.event == PTRACE_EVENT_VFORK;
    stop.thread = status.event == PTRACE_EVENT_CLONE;
  }
  return stop;
}

TraceeStop Tracee::Interpret(int raw) {
  const WaitStatus status = WaitStatus::Decode(raw);
  TraceeStop stop;
  if (!status.stopped()) {
    exited_ = true;
    stop.kind = TraceeStopKind::kExited;
    stop.wait_status = raw;
    return stop;
  }
  stop.signal = status.signal;
  if (status.kind == WaitStatus::Kind::kEvent) {
    stop = InterpretEvent(status);
  } else if (status.kind == WaitStatus::Kind::kSyscall) {
    stop.kind = TraceeStopKind::kSyscall;
  } else {
    siginfo_t info = {};
    // ESRCH: killed at this moment; what is made of it does not matter then.
    ptrace(PTRACE_GETSIGINFO, thread_, nullptr, &info);
    if (stop.signal == SIGTRAP && how_ == ResumeHow::kStep && IsStepTrap(info.si_code)) {
      stop.kind = TraceeStopKind::kStepped;
      stop.handler_entry = info.si_code == SIGTRAP;
    } else {
      stop.kind = TraceeStopKind::kSignal;
      stop.siginfo.assign(reinterpret_cast<const char*>(&info), sizeof(info));
    }
  }
  signals_.AfterStop(stop.handler_entry);
  if (stop.kind == TraceeStopKind::kStepped) LeaveTrap();
  if (stop.kind == TraceeStopKind::kGroupStop) return WithoutStep(std::move(stop));
  return stop;
}

std::optional<TraceeStop> Tracee::StopAnew() {
  if (!held_status_.has_value()) held_status_ = LeaveStepTrap(thread_);
  if (!held_status_.has_value()) return std::nullopt;
  return Interpret(*std::exchange(held_status_, std::nullopt));
}

bool Tracee::Interrupt() { return ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0; }

uint64_t Tracee::UseTime(uint64_t loop, uint64_t ns) {
  if (slot_.has_value() && !Park()) return 0;
  user_regs_struct before;
  signals_.mask();  // is put back at the end
  const uint64_t used_before = UsedTime(ProcPath("schedstat"));
  if (ptrace(PTRACE_GETREGS, thread_, nullptr, &before) != 0) return 0;
  user_regs_struct looping = before;
  looping.rip = loop;
  looping.orig_rax = ~uint64_t{0};  // in no system call that could be restarted
  // Should this process die, it goes on after the loop.
  if (parked_) looping = area_->Spinning(*slot_, before);
  if (!signals_.BlockAll() || ptrace(PTRACE_SETREGS, thread_, nullptr, &looping) != 0 ||
      ptrace(PTRACE_CONT, thread_, nullptr, 0) != 0) {
    return 0;
  }
  const timespec time = {static_cast<time_t>(ns / kNsPerSecond),
                         static_cast<long>(ns % kNsPerSecond)};
  nanosleep(&time, nullptr);
  ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr);
  siginfo_t stop = {};
  while (waitid(P_PID, static_cast<id_t>(thread_), &stop, WEXITED | WSTOPPED | WNOWAIT | __WALL)) {
    if (errno != EINTR) return 0;
  }
  // Its end is left for the next wait.
  if (stop.si_code != CLD_TRAPPED && stop.si_code != CLD_STOPPED) return 0;
  const std::optional<WaitStatus> status = WaitForThread(thread_);
  ptrace(PTRACE_SETREGS, thread_, nullptr, &before);
  if (!parked_) signals_.PutBack();
  // SIGSTOP cannot be blocked: it comes again.
  if (status.has_value() && status->kind == WaitStatus::Kind::kSignal) {
    syscall(SYS_tgkill, process_, thread_, status->signal);
  }
  const uint64_t used = UsedTime(ProcPath("schedstat")) - used_before;
  return used == 0 ? ns : used;  // a kernel without that file
}

void Tracee::ForgetRegisters() {
  general_known_ = vectors_known_ = parked_ = false;
  signals_.Forget();
}

void ClearTrapFlagAt(uint64_t address, Tracee* tracee) {
  uint64_t flags;
  auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(&flags), sizeof(flags));
  if (!tracee->memory().Read(address, bytes)) return;
  flags &= ~kTrapFlag;
  tracee->memory().Write(address, bytes);
}

}  // namespace hindsight
