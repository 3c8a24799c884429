#include "recorder/emulate/sync/disturbed_call.h"

#include <cerrno>

#include "absl/types/span.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {
namespace {

constexpr uint64_t kSyscallBytes = 2;  // of the instruction

}  // namespace

void DisturbedCall::Begin(uint64_t now_ns) {
  begun_ns_ = now_ns;
  returned_.reset();
}

bool DisturbedCall::MakeAgain(int64_t number, const RegisterFile& after, uint64_t now_ns,
                              bool lost) {
  if (static_cast<int64_t>(after.gpr[kRax]) != -EINTR || !SaysEintrWithoutReason(number)) {
    return false;
  }
  const auto is_over = [&] { return end_ns().has_value() && *end_ns() <= now_ns; };
  // The recorder has woken it if its time is over.
  if (!tracee_->signals().OnlyIgnoredCome(lost || is_over())) return false;
  if (!returned_.has_value()) {
    const uint64_t arguments[] = {after.gpr[kRdi], after.gpr[kRsi], after.gpr[kRdx],
                                  after.gpr[kR10], after.gpr[kR8],  after.gpr[kR9]};
    timeout_ = TimeoutOfCall(tracee_->process(), number, arguments,
                             [this](uint64_t address, absl::Span<uint8_t> out) {
                               return tracee_->memory().Read(address, out);
                             });
  }
  RegisterFile next;
  if (!tracee_->GetRegisters(/*vectors=*/false, &next)) return false;
  returned_ = next;
  const bool over = is_over();
  if (over) {
    next.gpr[kRax] = static_cast<uint64_t>(timeout_->result);
  } else {
    next.rip -= kSyscallBytes;
    next.gpr[kRax] = static_cast<uint64_t>(number);
  }
  tracee_->SetRegisters(next);  // false if it is gone: resuming it reports that
  return !over;
}

std::optional<uint64_t> DisturbedCall::end_ns() const {
  if (!returned_.has_value() || !timeout_.has_value()) return std::nullopt;
  return begun_ns_ + timeout_->ns;
}

void DisturbedCall::TakeBack() {
  if (!returned_.has_value()) return;
  tracee_->SetRegisters(*returned_);
  returned_.reset();
}

}  // namespace hindsight
