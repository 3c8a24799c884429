// The XSAVE family in a throw-away copy of a process. Dynamic linkers keep the vector registers
// with it around the look-up of a function that is called for the first time, so without it no such
// function could be called.
//
// Which components there are is what this machine has enabled, as far as the register file has
// them. A component whose registers are zero is marked as being in its initial state and, by
// xsavec, not stored: so a linker that has made room for fewer components is safe. Protection of
// memory is not looked at. Stateless; any thread.

#ifndef HINDSIGHT_SERVER_TARGET_SCRATCH_XSTATE_H_
#define HINDSIGHT_SERVER_TARGET_SCRATCH_XSTATE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "isa/registers.h"
#include "server/target/scratch_machine.h"

namespace hindsight {

// The answer of xgetbv for register 0.
uint64_t XstateComponents();

// Executes xsave, xsavec, xsaveopt or xrstor, whose bytes begin with `code`; does not advance rip.
// False, with nothing changed: it is none of these, or would fault.
bool ExecuteXstate(absl::Span<const uint8_t> code, ScratchMachine* machine,
                   RegisterFile* registers);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_SCRATCH_XSTATE_H_
