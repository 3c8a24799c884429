// Writes the host code that runs one planned instruction: a function that loads the registers the
// instruction uses, executes it, stores what it changed, and leaves the host's own state as it was.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_STUB_WRITER_H_
#define HINDSIGHT_EMULATOR_ASSIST_STUB_WRITER_H_

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/assist/assist_plan.h"
#include "isa/registers.h"

namespace hindsight {

// `memory` is what the memory operand becomes; `image` is loaded and stored by plans that use x87,
// whose other vector registers and MXCSR are not looked at in `registers`. Returns 0, or 1 if it
// was made to leave at Stub::bail; then `registers` is unchanged.
using StubFunction = uint64_t (*)(RegisterFile* registers, void* memory, user_fpregs_struct* image);

struct Stub {
  std::vector<uint8_t> code;  // position independent; its start is a StubFunction
  // Whoever handles a signal that the instruction raised lets the thread go on here.
  size_t bail = 0;
};

Stub WriteStub(const AssistPlan& plan);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_STUB_WRITER_H_
