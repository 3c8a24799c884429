// Instructions that Unicorn lacks or computes differently, and that we compute ourselves: functions
// of registers and memory like any other, so that nothing need be recorded for them.
//
// The list is short on purpose: what ordinary programs execute often enough for a native step (some
// ten microseconds) to hurt.

#ifndef HINDSIGHT_EMULATOR_ASSIST_H_
#define HINDSIGHT_EMULATOR_ASSIST_H_

#include <cstdint>

#include "absl/types/span.h"
#include "emulator/registers.h"

namespace hindsight {

// Guest memory. False: the access faults.
class AssistMemory {
 public:
  virtual ~AssistMemory() = default;
  virtual bool Read(uint64_t address, absl::Span<uint8_t> out) = 0;
  virtual bool Write(uint64_t address, absl::Span<const uint8_t> bytes) = 0;
};

// Whether Assist() knows the instruction (a ZydisMnemonic, in its legacy encoding).
bool IsAssisted(uint16_t mnemonic);

// Executes the instruction that starts at code[0]; its address is registers->rip, which moves on.
// False, and nothing changed, if it faults. Requires: IsAssisted.
bool Assist(absl::Span<const uint8_t> code, RegisterFile* registers, AssistMemory* memory);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_H_
