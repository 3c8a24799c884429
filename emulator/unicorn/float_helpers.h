// The guest's floating-point arithmetic on the host's own floating-point unit.
//
// Unicorn computes SSE and x87 arithmetic in software, and its NaNs and exception flags differ from
// the hardware's. Its generated code calls a function ("helper") for each such instruction, by a
// name that the dynamic linker resolves; sse_helpers.cc and x87_helpers.cc define functions of
// these names, which take precedence over Unicorn's and execute the instruction itself. While
// generated code runs, the host's MXCSR and x87 control word are the guest's, with all exceptions
// masked, so that rounding and precision apply and the exception flags accrue where the hardware
// accrues them.

#ifndef HINDSIGHT_EMULATOR_UNICORN_FLOAT_HELPERS_H_
#define HINDSIGHT_EMULATOR_UNICORN_FLOAT_HELPERS_H_

#include <cstdint>

#include "isa/registers.h"

namespace hindsight {

// Whether our helpers are the ones called, and the offsets of their operands in Unicorn's state are
// known: measured once per process. False: Unicorn's own arithmetic would run, which differs from
// the hardware's. Any thread.
bool FloatHelpersInUse();

// The guest's floating-point control and accrued exception flags, while a UnicornEngine holds them.
class GuestFloat {
 public:
  GuestFloat() = default;
  explicit GuestFloat(const RegisterFile& registers)
      : mxcsr_(static_cast<uint32_t>(registers.mxcsr)),
        control_(static_cast<uint16_t>(registers.fcw)),
        x87_flags_(static_cast<uint16_t>(registers.fsw & kExceptions)) {}

  uint64_t mxcsr() const { return mxcsr_; }
  // The exception flags of the x87 status word, those at construction included.
  uint64_t x87_flags() const { return x87_flags_; }

 private:
  friend class GuestFloatScope;
  static constexpr uint64_t kExceptions = 0x3f;

  uint32_t mxcsr_ = 0x1f80;
  uint16_t control_ = 0x37f;
  uint16_t x87_flags_ = 0;
};

// While it exists, this thread's floating-point unit has the guest's control. At its end, `guest`
// (borrowed) gets the flags that accrued.
class GuestFloatScope {
 public:
  explicit GuestFloatScope(GuestFloat* guest);
  ~GuestFloatScope();
  GuestFloatScope(const GuestFloatScope&) = delete;
  GuestFloatScope& operator=(const GuestFloatScope&) = delete;

 private:
  GuestFloat* guest_;
  uint32_t host_mxcsr_ = 0;
  uint16_t host_control_ = 0;
};

// Restores the host's own control, for code that is called inside a GuestFloatScope and may use
// floating point: its flags are not the guest's. Harmless elsewhere.
class HostFloatScope {
 public:
  HostFloatScope();
  ~HostFloatScope();
  HostFloatScope(const HostFloatScope&) = delete;
  HostFloatScope& operator=(const HostFloatScope&) = delete;

 private:
  static constexpr int kEnvironmentBytes = 28;
  uint32_t mxcsr_ = 0;
  uint8_t x87_[kEnvironmentBytes] = {};
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_UNICORN_FLOAT_HELPERS_H_
