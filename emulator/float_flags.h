// Finds the accrued floating-point exception flags inside Unicorn's register context.
//
// Unicorn's arithmetic accrues them (invalid, divide-by-zero, overflow, underflow, inexact; never
// denormal), but its MXCSR and x87 status word do not show them. They stand at a place in the saved
// context that depends on the build of the library, so the place is measured: an instruction that
// raises a known flag is executed, and the context looked at before and after.

#ifndef HINDSIGHT_EMULATOR_FLOAT_FLAGS_H_
#define HINDSIGHT_EMULATOR_FLOAT_FLAGS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace hindsight {

// The flags that are accrued, as MXCSR and the x87 status word place them.
inline constexpr uint8_t kAccruedFlags = 0x3d;

// Byte offsets from the start of a uc_context.
struct FloatFlagOffsets {
  size_t sse = 0;
  size_t x87 = 0;
};

// Measured once per process. Any thread.
absl::StatusOr<FloatFlagOffsets> FindFloatFlags();

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_FLOAT_FLAGS_H_
