// fnstenv, fldenv, fnsave, frstor, fninit: the x87 state as these lay it out in memory.
//
// Computed here instead of on the host because the images contain the address of the last x87
// instruction, which the register file keeps as it was loaded. Stateless; any thread.

#ifndef HINDSIGHT_ISA_X87_ENVIRONMENT_H_
#define HINDSIGHT_ISA_X87_ENVIRONMENT_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "isa/registers.h"

namespace hindsight {

// The environment in 32-bit protected-mode format, which 64-bit mode uses, and the state: the
// environment and eight registers of ten bytes.
inline constexpr size_t kX87EnvironmentBytes = 28;
inline constexpr size_t kX87StateBytes = kX87EnvironmentBytes + 8 * 10;

// As fnstenv stores it. The caller masks the exceptions afterwards.
std::array<uint8_t, kX87EnvironmentBytes> X87Environment(const RegisterFile& registers);
void LoadX87Environment(absl::Span<const uint8_t> environment, RegisterFile* registers);

std::array<uint8_t, kX87StateBytes> X87State(const RegisterFile& registers);
void LoadX87State(absl::Span<const uint8_t> state, RegisterFile* registers);

void InitializeX87(RegisterFile* registers);

// The control word as the processor keeps it, and the status word with its summary bits.
void SetX87Control(uint64_t control, RegisterFile* registers);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_X87_ENVIRONMENT_H_
