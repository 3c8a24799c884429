#include "emulator/code/x87_stack.h"

#include <Zydis/Zydis.h>

#include <array>
#include <optional>

#include "emulator/assist/host_plan.h"
#include "isa/decoder.h"

namespace hindsight {
namespace {

// What an instruction does to the stack before and after its work.
struct StackEffect {
  int pushes = 0;
  int pops = 0;
  bool frees = false;  // the register it names
};

// nullopt: of the x87 and not known here.
std::optional<StackEffect> EffectOf(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FLD:
    case ZYDIS_MNEMONIC_FILD:
    case ZYDIS_MNEMONIC_FLD1:
    case ZYDIS_MNEMONIC_FLDZ:
      return StackEffect{.pushes = 1};
    case ZYDIS_MNEMONIC_FSTP:
    case ZYDIS_MNEMONIC_FISTP:
    case ZYDIS_MNEMONIC_FADDP:
    case ZYDIS_MNEMONIC_FMULP:
    case ZYDIS_MNEMONIC_FSUBP:
    case ZYDIS_MNEMONIC_FSUBRP:
    case ZYDIS_MNEMONIC_FDIVP:
    case ZYDIS_MNEMONIC_FDIVRP:
    case ZYDIS_MNEMONIC_FCOMP:
    case ZYDIS_MNEMONIC_FICOMP:
    case ZYDIS_MNEMONIC_FUCOMP:
    case ZYDIS_MNEMONIC_FCOMIP:
    case ZYDIS_MNEMONIC_FUCOMIP:
      return StackEffect{.pops = 1};
    case ZYDIS_MNEMONIC_FCOMPP:
    case ZYDIS_MNEMONIC_FUCOMPP:
      return StackEffect{.pops = 2};
    case ZYDIS_MNEMONIC_FFREE:
      return StackEffect{.frees = true};
    case ZYDIS_MNEMONIC_FFREEP:
      return StackEffect{.pops = 1, .frees = true};
    case ZYDIS_MNEMONIC_FADD:
    case ZYDIS_MNEMONIC_FSUB:
    case ZYDIS_MNEMONIC_FSUBR:
    case ZYDIS_MNEMONIC_FMUL:
    case ZYDIS_MNEMONIC_FDIV:
    case ZYDIS_MNEMONIC_FDIVR:
    case ZYDIS_MNEMONIC_FIADD:
    case ZYDIS_MNEMONIC_FISUB:
    case ZYDIS_MNEMONIC_FISUBR:
    case ZYDIS_MNEMONIC_FIMUL:
    case ZYDIS_MNEMONIC_FIDIV:
    case ZYDIS_MNEMONIC_FIDIVR:
    case ZYDIS_MNEMONIC_FCOM:
    case ZYDIS_MNEMONIC_FUCOM:
    case ZYDIS_MNEMONIC_FICOM:
    case ZYDIS_MNEMONIC_FCOMI:
    case ZYDIS_MNEMONIC_FUCOMI:
    case ZYDIS_MNEMONIC_FCHS:
    case ZYDIS_MNEMONIC_FABS:
    case ZYDIS_MNEMONIC_FSQRT:
    case ZYDIS_MNEMONIC_FRNDINT:
    case ZYDIS_MNEMONIC_FTST:
    case ZYDIS_MNEMONIC_FXAM:
    case ZYDIS_MNEMONIC_FXCH:
    case ZYDIS_MNEMONIC_FST:
    case ZYDIS_MNEMONIC_FIST:
    case ZYDIS_MNEMONIC_FNSTCW:
    case ZYDIS_MNEMONIC_FNOP:
    case ZYDIS_MNEMONIC_FWAIT:
      return StackEffect{};
    default:
      return MovesX87Conditionally(mnemonic) ? std::optional(StackEffect{}) : std::nullopt;
  }
}

// What is known of the registers on the way through a block. Numbers are those of st(i) where it
// begins.
class Stack {
 public:
  // Looks at these of the present registers.
  void Need(uint8_t present, BlockX87Stack* block) const {
    for (int i = 0; i < 8; ++i) {
      const int number = (top_ + i) & 7;
      if ((present >> i & 1) == 0 || states_[number] == State::kFull) continue;
      if (states_[number] == State::kOld) block->needed |= 1 << number;
      block->unknown |= states_[number] == State::kEmpty;
    }
  }

  void Execute(const StackEffect& effect, int named) {
    for (int i = 0; i < effect.pushes; ++i) {
      top_ = (top_ - 1) & 7;
      states_[top_] = State::kFull;
    }
    if (effect.frees) states_[(top_ + named) & 7] = State::kEmpty;
    for (int i = 0; i < effect.pops; ++i) {
      states_[top_] = State::kEmpty;
      top_ = (top_ + 1) & 7;
    }
  }

 private:
  enum class State : uint8_t { kOld, kFull, kEmpty };

  std::array<State, 8> states_ = {};
  int top_ = 0;
};

}  // namespace

bool MovesX87Conditionally(uint16_t mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FCMOVB:
    case ZYDIS_MNEMONIC_FCMOVBE:
    case ZYDIS_MNEMONIC_FCMOVE:
    case ZYDIS_MNEMONIC_FCMOVNB:
    case ZYDIS_MNEMONIC_FCMOVNBE:
    case ZYDIS_MNEMONIC_FCMOVNE:
    case ZYDIS_MNEMONIC_FCMOVNU:
    case ZYDIS_MNEMONIC_FCMOVU:
      return true;
    default:
      return false;
  }
}

// The opcode's last byte has the number.
uint8_t RegistersOfFcmov(absl::Span<const uint8_t> code) {
  return static_cast<uint8_t>(1 | 1 << (code.back() & 7));
}

BlockX87Stack X87StackOf(absl::Span<const uint8_t> code) {
  BlockX87Stack block;
  Stack stack;
  while (!code.empty()) {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!Decode(code, &instruction, operands)) break;
    const absl::Span<const uint8_t> bytes = code.subspan(0, instruction.length);
    if (MovesX87Conditionally(instruction.mnemonic)) stack.Need(RegistersOfFcmov(bytes), &block);
    if (IsX87OrMmx(instruction)) {
      const std::optional<StackEffect> effect = EffectOf(instruction.mnemonic);
      block.unknown |= !effect.has_value();
      stack.Execute(effect.value_or(StackEffect()), bytes.back() & 7);
    }
    code.remove_prefix(instruction.length);
  }
  return block;
}

}  // namespace hindsight
