// Changes of the register file as the trace holds them.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_CPU_REGISTER_PATCH_H_
#define HINDSIGHT_EMULATOR_CPU_REGISTER_PATCH_H_

#include "isa/registers.h"
#include "tracefmt/records.h"

namespace hindsight {

// The words in which `after` differs from `before`.
RegisterPatch Difference(const RegisterFile& before, const RegisterFile& after);
// False, and `registers` unchanged, if an index lies outside the layout.
bool Apply(const RegisterPatch& patch, RegisterFile* registers);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_REGISTER_PATCH_H_
