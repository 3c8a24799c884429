#include "translator/flags.h"

#include "isa/decoder.h"

namespace hindsight {
namespace {

// How far FlagsReadFrom looks. Compilers overwrite flags within a few instructions.
constexpr int kLookahead = 12;
// And FlagsSurelyRead, along each path.
constexpr int kFarLookahead = 32;

// The flags of shifts and rotates by zero stay.
bool MayShiftByZero(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  if (decoded.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) return false;
  if (decoded.meta.category != ZYDIS_CATEGORY_SHIFT &&
      decoded.meta.category != ZYDIS_CATEGORY_ROTATE) {
    return false;
  }
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
      // Rotates of 8 and 16 bits by a multiple of their width leave some flags: rare, so not told
      // apart from shifts by zero.
      return (operand.imm.value.u & 0x1f) == 0 || decoded.operand_width < 32;
    }
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.reg.value == ZYDIS_REGISTER_CL &&
        operand.id != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

FlagUse FlagsOf(const GuestInstruction& instruction) {
  const ZydisAccessedFlags* flags = instruction.decoded.cpu_flags;
  if (flags == nullptr) return {};
  FlagUse use;
  use.read = flags->tested & kStatusFlags;
  const ZydisInstructionAttributes repeats =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  // None is executed if rcx is 0.
  if ((instruction.decoded.attributes & repeats) != 0) return use;
  if (MayShiftByZero(instruction)) return use;
  use.overwritten = (flags->modified | flags->set_0 | flags->set_1) & kStatusFlags;
  use.overwritten &= ~(flags->undefined & ~ZYDIS_CPUFLAG_AF);
  use.overwritten |= flags->undefined & ZYDIS_CPUFLAG_AF;
  return use;
}

uint32_t FlagsSurelyRead(uint64_t pc, uint32_t wanted, const CodeAt& code_at, int depth,
                         std::vector<CodeRange>* relied_on) {
  if (!code_at) return 0;
  uint32_t read = 0;
  for (int left = kFarLookahead; left > 0 && wanted != 0; --left) {
    GuestInstruction instruction;
    if (!DecodeGuest(pc, code_at(pc), &instruction)) break;
    relied_on->push_back({pc, instruction.decoded.length});
    const FlagUse use = FlagsOf(instruction);
    read |= use.read & wanted;
    wanted &= ~(use.read | use.overwritten);
    const Control control = ControlOf(instruction);
    switch (control) {
      case Control::kNone:
        pc = instruction.next();
        break;
      case Control::kConditional:
      case Control::kLoop:
        if (depth == 0) return read;
        read |= FlagsSurelyRead(instruction.next(), wanted, code_at, depth - 1, relied_on);
        pc = BranchTarget(instruction);
        break;
      case Control::kJump:
      case Control::kCall:
        pc = BranchTarget(instruction);
        break;
      default:
        return read;
    }
  }
  return read;
}

bool IsLookedThrough(Control control) {
  return control == Control::kNone || control == Control::kJump || control == Control::kCall;
}

uint32_t FlagsReadFrom(uint64_t pc, const CodeAt& code_at, std::vector<CodeRange>* relied_on) {
  if (!code_at) return kStatusFlags;
  uint32_t open = kStatusFlags;  // neither read nor overwritten so far
  uint32_t read = 0;
  for (int left = kLookahead; left > 0 && open != 0; --left) {
    GuestInstruction instruction;
    if (!DecodeGuest(pc, code_at(pc), &instruction)) break;
    const FlagUse use = FlagsOf(instruction);
    read |= use.read & open;
    const Control control = ControlOf(instruction);
    if (!IsLookedThrough(control)) break;
    relied_on->push_back({pc, instruction.decoded.length});
    open &= ~(use.read | use.overwritten);
    pc = control == Control::kNone ? instruction.next() : BranchTarget(instruction);
  }
  return read | open;
}

}  // namespace hindsight
