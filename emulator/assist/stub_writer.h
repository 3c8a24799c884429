// Writes the host code that runs one planned instruction: a function that loads the registers the
// instruction uses, executes it, stores what it changed, and preserves the host's own state.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_STUB_WRITER_H_
#define HINDSIGHT_EMULATOR_ASSIST_STUB_WRITER_H_

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/assist/host_plan.h"
#include "isa/registers.h"

namespace hindsight {

// `memory` becomes the memory operand; `image` is loaded and stored by plans that use the x87, and
// then replaces the vector registers and MXCSR of `registers`. Returns 0, or 1 if it left at
// Stub::bail; then `registers` is unchanged.
using StubFunction = uint64_t (*)(RegisterFile* registers, void* memory, user_fpregs_struct* image);

struct Stub {
  std::vector<uint8_t> code;  // position independent; its start is a StubFunction
  // Where the handler of a signal that the instruction raised lets the thread continue.
  size_t bail = 0;
};

Stub WriteStub(const HostPlan& plan);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_STUB_WRITER_H_
