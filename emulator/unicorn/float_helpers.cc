#include "emulator/unicorn/float_helpers.h"

namespace hindsight {
namespace {

constexpr uint32_t kMxcsrMasks = 0x1f80, kOwnMxcsr = 0x1f80;
constexpr uint16_t kControlMasks = 0x3f;
constexpr uint16_t kExceptions = 0x3f;
// Exceptions, stack fault, summary.
constexpr uint16_t kStatusFlags = 0xff;

uint32_t Mxcsr() {
  uint32_t value;
  asm volatile("stmxcsr %0" : "=m"(value));
  return value;
}

void SetMxcsr(uint32_t value) { asm volatile("ldmxcsr %0" : : "m"(value)); }

uint16_t ControlWord() {
  uint16_t value;
  asm volatile("fnstcw %0" : "=m"(value));
  return value;
}

// Takes some ten nanoseconds, and mostly is what it is already.
void SetControlWord(uint16_t value) {
  if (ControlWord() != value) asm volatile("fldcw %0" : : "m"(value));
}

// Clears the x87 exception flags and returns what they were.
uint16_t TakeX87Flags() {
  uint16_t status;
  asm volatile("fnstsw %0" : "=a"(status));
  if ((status & kStatusFlags) != 0) asm volatile("fnclex");
  return status & kExceptions;
}

}  // namespace

GuestFloatScope::GuestFloatScope(GuestFloat* guest)
    : guest_(guest), host_mxcsr_(Mxcsr()), host_control_(ControlWord()) {
  TakeX87Flags();
  SetControlWord(guest->control_ | kControlMasks);
  SetMxcsr(guest->mxcsr_ | kMxcsrMasks);
}

GuestFloatScope::~GuestFloatScope() {
  guest_->mxcsr_ |= Mxcsr() & kExceptions;
  guest_->x87_flags_ |= TakeX87Flags();
  SetControlWord(host_control_);
  SetMxcsr(host_mxcsr_);
}

HostFloatScope::HostFloatScope() : mxcsr_(Mxcsr()) {
  asm volatile("fnstenv %0\n\tfninit" : "=m"(x87_));
  SetMxcsr(kOwnMxcsr);
}

HostFloatScope::~HostFloatScope() {
  asm volatile("fldenv %0" : : "m"(x87_));
  SetMxcsr(mxcsr_);
}

}  // namespace hindsight
