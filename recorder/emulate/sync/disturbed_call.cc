#include "recorder/emulate/sync/disturbed_call.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "absl/types/span.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {
namespace {

constexpr uint64_t kSyscallBytes = 2;  // of the instruction
constexpr uint64_t kRedZone = 128;
constexpr uint64_t kNsPerMs = 1'000'000, kNsPerSecond = 1'000'000'000;

// The register that says how long a call waits: in milliseconds, or where the timespec is.
struct TimeoutRegister {
  int index = 0;
  bool is_timespec = true;
};

std::optional<TimeoutRegister> TimeoutRegisterOf(int64_t number) {
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return TimeoutRegister{kR10, /*is_timespec=*/false};
    case SYS_epoll_pwait2:
    case SYS_semtimedop:
      return TimeoutRegister{kR10};
    case SYS_rt_sigtimedwait:
      return TimeoutRegister{kRdx};
    case SYS_io_getevents:
    case SYS_io_pgetevents:
      return TimeoutRegister{kR8};
    default:
      return std::nullopt;
  }
}

// In nanoseconds; nullopt: for ever.
std::optional<uint64_t> TimeoutOf(const TimeoutRegister& how, const RegisterFile& registers,
                                  const Tracee& tracee) {
  const uint64_t value = registers.gpr[how.index];
  if (!how.is_timespec) {
    const auto ms = static_cast<int32_t>(value);
    if (ms < 0) return std::nullopt;
    return static_cast<uint64_t>(ms) * kNsPerMs;
  }
  timespec time;
  const auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(&time), sizeof(time));
  // Longer ones are as good as none.
  constexpr int64_t kLongestSeconds = int64_t{1} << 32;
  if (value == 0 || !tracee.memory().Read(value, bytes) || time.tv_sec < 0 ||
      time.tv_sec > kLongestSeconds) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(time.tv_sec) * kNsPerSecond + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

void DisturbedCall::Begin(uint64_t now_ns) {
  begun_ns_ = now_ns;
  returned_.reset();
  scratch_.reset();
}

bool DisturbedCall::MakeAgain(int64_t number, const RegisterFile& after, uint64_t now_ns,
                              bool lost) {
  if (static_cast<int64_t>(after.gpr[kRax]) != -EINTR || !SaysEintrWithoutReason(number) ||
      !tracee_->signals().OnlyIgnoredCome(lost)) {
    return false;
  }
  Finish();
  RegisterFile again;
  if (!tracee_->GetRegisters(/*vectors=*/false, &again)) return false;
  returned_ = again;
  again.rip -= kSyscallBytes;
  again.gpr[kRax] = static_cast<uint64_t>(number);
  SetTimeLeft(number, now_ns, &again);
  tracee_->SetRegisters(again);  // false if it is gone: resuming it reports that
  return true;
}

void DisturbedCall::SetTimeLeft(int64_t number, uint64_t now_ns, RegisterFile* again) {
  const auto how = TimeoutRegisterOf(number);
  const auto timeout = how.has_value() ? TimeoutOf(*how, *again, *tracee_) : std::nullopt;
  if (!timeout.has_value()) return;
  const uint64_t left_ns = *timeout - std::min(*timeout, now_ns - begun_ns_);
  uint64_t& value = again->gpr[how->index];
  if (!how->is_timespec) {
    value = (left_ns + kNsPerMs - 1) / kNsPerMs;
  } else if (WriteTime(left_ns, again->gpr[kRsp])) {
    value = scratch_->address;
  }
}

// Where there is no memory below the stack, the whole time is waited again.
bool DisturbedCall::WriteTime(uint64_t ns, uint64_t stack) {
  Scratch scratch;
  scratch.address = (stack - kRedZone - sizeof(timespec)) & ~uint64_t{alignof(timespec) - 1};
  const timespec time = {.tv_sec = static_cast<time_t>(ns / kNsPerSecond),
                         .tv_nsec = static_cast<long>(ns % kNsPerSecond)};
  if (!tracee_->memory().Read(scratch.address, absl::MakeSpan(scratch.before)) ||
      !tracee_->memory().Write(scratch.address,
                               {reinterpret_cast<const uint8_t*>(&time), sizeof(time)})) {
    return false;
  }
  scratch_ = scratch;
  return true;
}

void DisturbedCall::PutBackMemory() {
  if (!scratch_.has_value()) return;
  tracee_->memory().Write(scratch_->address, scratch_->before);
  scratch_.reset();
}

void DisturbedCall::TakeBack() {
  if (!returned_.has_value()) return;
  PutBackMemory();
  tracee_->SetRegisters(*returned_);
  returned_.reset();
}

void DisturbedCall::Finish() {
  if (!returned_.has_value()) return;
  PutBackMemory();
  RegisterFile now;
  if (!tracee_->GetRegisters(/*vectors=*/false, &now)) return;
  for (const int index : {kRdx, kR10, kR8}) now.gpr[index] = returned_->gpr[index];
  tracee_->SetRegisters(now);
  returned_.reset();
}

}  // namespace hindsight
