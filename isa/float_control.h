// Floating-point control that an emulator's generated code does not follow: unmasked exceptions,
// which are masked while it runs.
//
// A function of the registers, so that recorder and replay agree at every instruction.

#ifndef HINDSIGHT_ISA_FLOAT_CONTROL_H_
#define HINDSIGHT_ISA_FLOAT_CONTROL_H_

#include <Zydis/Zydis.h>

#include <cstdint>

#include "isa/registers.h"

namespace hindsight {

// Intel SDM vol. 1, 10.2.3 (MXCSR) and 8.1.5 (x87 control word).
inline bool HasUnusualFloatControl(const RegisterFile& registers) {
  constexpr uint64_t kMxcsrMasks = 0x1f80;
  constexpr uint64_t kControlWordMasks = 0x3f;
  return (registers.mxcsr & kMxcsrMasks) != kMxcsrMasks ||
         (registers.fcw & kControlWordMasks) != kControlWordMasks;
}

// Whether the instruction may change the result of HasUnusualFloatControl.
bool SetsFloatControl(ZydisMnemonic mnemonic);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_FLOAT_CONTROL_H_
