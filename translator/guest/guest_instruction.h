// A decoded instruction of the guest, and what the translator asks about it.
//
// Values and functions of their arguments; any thread.

#ifndef HINDSIGHT_TRANSLATOR_GUEST_GUEST_INSTRUCTION_H_
#define HINDSIGHT_TRANSLATOR_GUEST_GUEST_INSTRUCTION_H_

#include <Zydis/Zydis.h>

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "translator/host/assembler.h"

namespace hindsight {

struct GuestInstruction {
  uint64_t pc;
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];

  uint64_t next() const { return pc + decoded.length; }
  absl::Span<const uint8_t> Bytes() const { return {bytes, decoded.length}; }
  absl::Span<const ZydisDecodedOperand> Operands() const {
    return {operands, decoded.operand_count};
  }
};

// False: `code` does not begin with an instruction.
bool DecodeGuest(uint64_t pc, absl::Span<const uint8_t> code, GuestInstruction* out);

// What an instruction is to control.
enum class Control : uint8_t {
  kNone,
  kJump,         // direct
  kConditional,  // jcc
  kLoop,         // loop, loope, loopne, jrcxz, jecxz
  kCall,         // direct
  kIndirectJump,
  kIndirectCall,
  kReturn,
  kSyscall,
  kRefused,  // not executed in translated code
};
Control ControlOf(const GuestInstruction& instruction);

// Requires: kJump, kConditional, kLoop or kCall.
uint64_t BranchTarget(const GuestInstruction& instruction);

// Number of the general register that `reg` is, or is a part of; -1 if none.
int GeneralRegister(ZydisRegister reg);

// Bit i: register i is an operand or part of an address, hidden ones included.
uint16_t UsedRegisters(const GuestInstruction& instruction);

// Whether an operand is ah, bh, ch or dh, which an instruction with REX cannot name.
bool UsesHighByte(const GuestInstruction& instruction);

// bt, bts, btr or btc with a register: it moves the memory operand.
bool IsBitTest(const GuestInstruction& instruction);

// The operand that ModRM, or an absolute address in the instruction, names; nullptr if none.
const ZydisDecodedOperand* EncodedMemory(const GuestInstruction& instruction);

// Its address in the guest's registers. Of an absolute address longer than 32 bits, and relative to
// rip, the address itself with from_rip set.
HostAddress AddressOf(const GuestInstruction& instruction, const ZydisDecodedOperand& operand);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_GUEST_GUEST_INSTRUCTION_H_
