// Plain integer instructions, which Unicorn and the host compute alike to the last flag. They are
// executed here when others between them are, so that the registers need not go to Unicorn and
// back.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_PLAIN_INSTRUCTION_H_
#define HINDSIGHT_EMULATOR_PLAIN_INSTRUCTION_H_

#include <Zydis/Zydis.h>

#include <cstdint>

#include "emulator/operand_address.h"
#include "emulator/registers.h"

namespace hindsight {

enum class PlainKind : uint8_t {
  kNone,  // not plain
  kHost,  // run on the host's processor like an assisted one
  kNop,
  kLea,
  kJump,
  kConditionalJump,
};

PlainKind PlainKindOf(const ZydisDecodedInstruction& instruction,
                      const ZydisDecodedOperand* operands);

// One of those that need no stub.
class PlainInstruction {
 public:
  PlainInstruction() = default;
  // Requires: PlainKindOf is not kNone, not kHost.
  PlainInstruction(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands);

  // It cannot fault; rip moves on.
  void Execute(RegisterFile* registers) const;

 private:
  PlainKind kind_ = PlainKind::kNone;
  uint8_t length_ = 0;
  uint8_t condition_ = 0;  // the low four bits of the opcode
  uint8_t register_ = 0;   // lea's destination,
  uint8_t bytes_ = 0;      // and its width
  uint64_t distance_ = 0;  // of a jump
  OperandAddress address_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_PLAIN_INSTRUCTION_H_
