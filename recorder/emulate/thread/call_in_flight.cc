#include "recorder/emulate/thread/call_in_flight.h"

#include <linux/sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>

#include "recorder/syscalls/call_order.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {

CallInFlight::CallInFlight(const RegisterFile& at)
    : number_(static_cast<int64_t>(at.gpr[kRax])), arguments_{at.gpr[kRdi], at.gpr[kRsi],
                                                              at.gpr[kRdx], at.gpr[kR10],
                                                              at.gpr[kR8],  at.gpr[kR9]} {}

CallInFlight CallInFlight::OfExec(std::optional<CallInFlight> by_other) {
  CallInFlight call;
  call.number_ = SYS_execve;
  if (by_other.has_value()) call = *std::move(by_other);
  call.inside_ = call.is_exec_ = true;
  call.interrupted_ = false;
  call.held_signals_.clear();
  return call;
}

bool CallInFlight::OnSyscallStop(const ReadMemory& read) {
  inside_ = !inside_;
  interrupted_ = false;
  if (inside_) memory_ = ArgumentMemory::Take(number_, arguments(), read);
  return !inside_;
}

bool CallInFlight::IsInterruptedBy(int64_t result) const {
  return IsRestartCode(result) && number_ != SYS_rt_sigreturn;
}

bool CallInFlight::ChangesAllRegisters() const { return number_ == SYS_rt_sigreturn || is_exec_; }

bool CallInFlight::HasVforked() const {
  return std::any_of(forks_.begin(), forks_.end(),
                     [](const Fork& fork) { return fork.kind == ForkKind::kVfork; });
}

void CallInFlight::AddFork(const TraceeStop& stop, pid_t process, bool recorded) {
  const bool vfork = stop.vfork || number_ == SYS_vfork;
  const ForkKind kind = vfork                 ? ForkKind::kVfork
                        : number_ == SYS_fork ? ForkKind::kFork
                                              : ForkKind::kClone;
  forks_.push_back({.kind = kind, .process = process, .recorded = recorded});
}

bool CallInFlight::Acts(const ReadMemory& read) const {
  switch (number_) {
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
    case SYS_clone3:
    case SYS_execve:
    case SYS_execveat:
      return false;
    default:
      break;
  }
  const auto peek = [&read](uint64_t address, size_t bytes) {
    return ReadWord(read, address, bytes).value_or(0);
  };
  return StandsWhereItBegan(static_cast<uint64_t>(number_), arguments(), peek);
}

uint64_t CallInFlight::CloneFlags() const {
  if (number_ == SYS_clone3) return memory_.Word(arguments_[0], sizeof(uint64_t));
  return number_ == SYS_clone ? arguments_[0] : 0;
}

uint64_t CallInFlight::ChildTidAddress() const {
  if (number_ != SYS_clone3) return arguments_[3];
  return memory_.Word(arguments_[0] + offsetof(clone_args, child_tid), sizeof(uint64_t));
}

std::vector<MemoryRange> CallInFlight::RemoteWrites() const {
  std::vector<MemoryRange> ranges;
  const uint64_t count = std::min<uint64_t>(arguments_[4], kMaxIovecs);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t part = arguments_[3] + i * kIovecBytes;
    ranges.push_back({memory_.Word(part, 8), memory_.Word(part + 8, 8)});
  }
  return ranges;
}

SyscallOutputs CallInFlight::Outputs(int64_t result, const ReadMemory& read) const {
  return OutputsOf(number_, arguments(), result, memory_, read);
}

}  // namespace hindsight
