// Plain instructions, of integers or moving and shuffling vectors, which Unicorn and we compute
// alike to the last flag, undefined ones included. They are executed here when others between them
// are, so that the registers need not go to Unicorn and back.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_PLAIN_INSTRUCTION_H_
#define HINDSIGHT_EMULATOR_ASSIST_PLAIN_INSTRUCTION_H_

#include <Zydis/Zydis.h>

#include <cstdint>

#include "emulator/assist/assist_memory.h"
#include "isa/operand_address.h"
#include "isa/registers.h"

namespace hindsight {

enum class PlainKind : uint8_t {
  kNone,  // not plain
  kHost,  // run on the host's processor like an assisted one
  kNop,
  kLea,
  kJump,
  kConditionalJump,
  kIndirectJump,
  kCall,  // direct or indirect
  kReturn,
  kPush,
  kPop,
  kShift,     // shl, shr, sar of a register
  kMultiply,  // imul with two or three operands, none in memory
};

PlainKind PlainKindOf(const ZydisDecodedInstruction& instruction,
                      const ZydisDecodedOperand* operands);

// One of those that need no stub.
class PlainInstruction {
 public:
  PlainInstruction() = default;
  // Requires: PlainKindOf is not kNone, not kHost.
  PlainInstruction(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands);

  // Executes it; rip moves on. False, and nothing changed, if it faults.
  bool Execute(RegisterFile* registers, AssistMemory* memory) const;

 private:
  bool Target(const RegisterFile& registers, AssistMemory* memory, uint64_t* target) const;
  bool Call(RegisterFile* registers, AssistMemory* memory) const;
  bool Return(RegisterFile* registers, AssistMemory* memory) const;
  bool Push(RegisterFile* registers, AssistMemory* memory) const;
  bool Pop(RegisterFile* registers, AssistMemory* memory) const;
  void Shift(RegisterFile* registers) const;
  void Multiply(RegisterFile* registers) const;
  void NoteOperands(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand* operands);
  void Put(uint64_t value, RegisterFile* registers) const;

  PlainKind kind_ = PlainKind::kNone;
  uint8_t length_ = 0;
  uint8_t condition_ = 0;  // the low four bits of the opcode
  int8_t register_ = -1;   // its destination, or its only operand; -1: that is elsewhere
  int8_t source_ = -1;     // kMultiply, kShift: the register multiplied or shifted by; -1: `value_`
  int8_t factor_ = -1;     // kMultiply: the other one
  uint8_t bytes_ = 0;      // width of the destination
  bool in_memory_ = false;  // the target of a jump or call is read from `address_`
  uint8_t opcode_ = 0;      // kShift: ModRM.reg
  uint64_t value_ = 0;      // immediate: the distance of a jump, what ret adds to rsp, a count
  OperandAddress address_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_PLAIN_INSTRUCTION_H_
