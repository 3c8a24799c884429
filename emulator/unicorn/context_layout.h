// The offsets of the registers in Unicorn's register context, so that all can be read at the cost
// of one copy instead of one call each.
//
// The places depend on the build of the library, so they are measured: registers are given values
// that occur nowhere else, and looked for.

#ifndef HINDSIGHT_EMULATOR_UNICORN_CONTEXT_LAYOUT_H_
#define HINDSIGHT_EMULATOR_UNICORN_CONTEXT_LAYOUT_H_

#include <array>
#include <cstddef>

#include "absl/status/statusor.h"

namespace hindsight {

// Byte offsets from the start of a uc_context.
struct ContextLayout {
  std::array<size_t, 16> gpr = {};  // by encoding number, eight bytes each
  std::array<size_t, 16> xmm = {};  // sixteen bytes each
  size_t fs_base = 0, gs_base = 0;
  // While these bytes stay the same so does all of the x87's state but the accrued flags.
  size_t x87_begin = 0, x87_end = 0;
};

// Measured once per process. Any thread.
absl::StatusOr<ContextLayout> FindContextLayout();

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_UNICORN_CONTEXT_LAYOUT_H_
