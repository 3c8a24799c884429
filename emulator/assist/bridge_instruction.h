// Bridge instructions: integer instructions, and moves and shuffles of vectors, for which Unicorn
// and we compute the same result to the last flag, undefined ones included. Between assisted
// instructions they are executed here, which saves moving the registers to Unicorn and back.
//
// Stateless; any thread.

#ifndef HINDSIGHT_EMULATOR_ASSIST_BRIDGE_INSTRUCTION_H_
#define HINDSIGHT_EMULATOR_ASSIST_BRIDGE_INSTRUCTION_H_

#include <Zydis/Zydis.h>

#include <cstdint>

#include "emulator/assist/guest_memory.h"
#include "isa/operand_address.h"
#include "isa/registers.h"

namespace hindsight {

enum class BridgeKind : uint8_t {
  kNone,  // not a bridge instruction
  kHost,  // runs on the host's processor like an assisted one
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

BridgeKind BridgeKindOf(const ZydisDecodedInstruction& instruction,
                        const ZydisDecodedOperand* operands);

// A bridge instruction that needs no stub: decoded once, executed in C++.
class BridgeInstruction {
 public:
  BridgeInstruction() = default;
  // Requires: BridgeKindOf is not kNone, not kHost.
  BridgeInstruction(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand* operands);

  // Executes it and advances rip. False, with nothing changed, if it faults.
  bool Execute(RegisterFile* registers, GuestMemory* memory) const;

 private:
  bool Target(const RegisterFile& registers, GuestMemory* memory, uint64_t* target) const;
  bool Call(RegisterFile* registers, GuestMemory* memory) const;
  bool Return(RegisterFile* registers, GuestMemory* memory) const;
  bool Push(RegisterFile* registers, GuestMemory* memory) const;
  bool Pop(RegisterFile* registers, GuestMemory* memory) const;
  void Shift(RegisterFile* registers) const;
  void Multiply(RegisterFile* registers) const;
  void NoteOperands(const ZydisDecodedInstruction& instruction,
                    const ZydisDecodedOperand* operands);
  void Put(uint64_t value, RegisterFile* registers) const;

  BridgeKind kind_ = BridgeKind::kNone;
  uint8_t length_ = 0;
  uint8_t condition_ = 0;  // the low four bits of the opcode
  int8_t register_ = -1;   // its destination, or its only operand; -1: not a register
  int8_t source_ = -1;     // kMultiply, kShift: the register multiplied or shifted by; -1: `value_`
  int8_t factor_ = -1;     // kMultiply: the other one
  uint8_t bytes_ = 0;      // width of the destination
  bool in_memory_ = false;  // the target of a jump or call is read from `address_`
  uint8_t opcode_ = 0;      // kShift: ModRM.reg
  uint64_t value_ = 0;      // immediate: the distance of a jump, what ret adds to rsp, a count
  OperandAddress address_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_BRIDGE_INSTRUCTION_H_
