#include "translator/guest/register_choice.h"

namespace hindsight {
namespace {

int First(uint16_t registers) { return registers == 0 ? -1 : __builtin_ctz(registers); }

uint16_t BitOf(int number) { return static_cast<uint16_t>(1u << number); }

}  // namespace

RegisterChoice::Use RegisterChoice::UseOf(const GuestInstruction& instruction) {
  Use use;
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
    const int number = GeneralRegister(operand.reg.value);
    const bool whole = operand.actions == ZYDIS_OPERAND_ACTION_WRITE && operand.size >= 32;
    if (number >= 0 && whole) use.overwritten |= BitOf(number);
    if (number >= 0 && !whole) use.read |= BitOf(number);
  }
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    for (const ZydisRegister reg : {operand.mem.base, operand.mem.index}) {
      if (GeneralRegister(reg) >= 0) use.read |= BitOf(GeneralRegister(reg));
    }
  }
  use.overwritten &= static_cast<uint16_t>(~use.read);
  return use;
}

int RegisterChoice::LeastTaken(uint16_t candidates) const {
  int best = First(candidates);
  for (int number = 0; number < 16; ++number) {
    if ((candidates & BitOf(number)) != 0 && taken_[number] < taken_[best]) best = number;
  }
  return best;
}

int RegisterChoice::Find(uint16_t candidates) {
  if (uses_.empty()) {
    uses_.reserve(instructions_.size());
    for (const GuestInstruction& instruction : instructions_) uses_.push_back(UseOf(instruction));
  }
  uint16_t left = candidates;
  for (size_t i = 1; i <= uses_.size(); ++i) {
    const Use& use = uses_[(index_ + i) % uses_.size()];
    if ((left & use.overwritten) != 0) return First(left & use.overwritten);
    // The last one to be read, if all are.
    if ((left & ~use.read) == 0) return First(left);
    left &= static_cast<uint16_t>(~use.read);
  }
  return LeastTaken(left);
}

int RegisterChoice::Take(uint16_t candidates) {
  if (candidates == 0) return -1;
  const int found = Find(candidates);
  ++taken_[found];
  return found;
}

}  // namespace hindsight
