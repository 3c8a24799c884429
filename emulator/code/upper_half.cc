#include "emulator/code/upper_half.h"

#include <algorithm>
#include <array>

#include "isa/decoder.h"

namespace hindsight {
namespace {

constexpr int kRaxNumber = 0;

enum class Value : uint8_t {
  kOld,    // as where the block begins
  kShort,  // the upper half is zero
  kUnknown,
};

ZydisRegister WholeOf(ZydisRegister name) {
  return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
}

bool IsGpr(ZydisRegister name) {
  return ZydisRegisterGetClass(WholeOf(name)) == ZYDIS_REGCLASS_GPR64;
}

uint8_t NumberOf(ZydisRegister name) {
  return static_cast<uint8_t>(ZydisRegisterGetId(WholeOf(name)));
}

// What is known of the registers on the way through a block.
class Values {
 public:
  Value& of(uint8_t gpr) { return values_[gpr]; }

  void Execute(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
    for (int i = 0; i < instruction.operand_count; ++i) {
      const ZydisDecodedOperand& operand = operands[i];
      if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER || !IsGpr(operand.reg.value) ||
          (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) {
        continue;
      }
      Value& value = values_[NumberOf(operand.reg.value)];
      if (operand.size == 32) {
        value = Value::kShort;
      } else if (operand.size == 64 || value != Value::kShort) {
        value = Value::kUnknown;
      }
    }
  }

 private:
  std::array<Value, 16> values_ = {};
};

// The operand that is scanned, or kNoGpr.
uint8_t ScannedGpr(const ZydisDecodedInstruction& instruction,
                   const ZydisDecodedOperand* operands) {
  const bool scans = instruction.mnemonic != ZYDIS_MNEMONIC_CMPXCHG;
  return scans && operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER ? NumberOf(operands[1].reg.value)
                                                                  : kNoGpr;
}

}  // namespace

uint8_t KeptGpr(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  if (instruction.operand_width != 32) return kNoGpr;
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_BSF:
    case ZYDIS_MNEMONIC_BSR:
      return NumberOf(operands[0].reg.value);
    case ZYDIS_MNEMONIC_CMPXCHG:
      return operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY ? kRaxNumber : kNoGpr;
    default:
      return kNoGpr;
  }
}

BlockUpperHalves UpperHalvesOf(absl::Span<const uint8_t> code) {
  BlockUpperHalves block;
  Values values;
  while (!code.empty()) {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!Decode(code, &instruction, operands)) break;
    const uint8_t kept = KeptGpr(instruction, operands);
    if (kept != kNoGpr && values.of(kept) != Value::kShort) {
      const uint8_t scanned = ScannedGpr(instruction, operands);
      UpperHalfCheck check;
      if (values.of(kept) == Value::kOld) check.upper = kept;
      if (scanned != kNoGpr && values.of(scanned) == Value::kOld) check.lower = scanned;
      if (check == UpperHalfCheck()) {
        block.unknown = true;
      } else if (std::find(block.checks.begin(), block.checks.end(), check) == block.checks.end()) {
        block.checks.push_back(check);
      }
    }
    values.Execute(instruction, operands);
    code.remove_prefix(instruction.length);
  }
  return block;
}

}  // namespace hindsight
