#include "isa/alignment.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "isa/decoder.h"

namespace hindsight {
namespace {

// The low four bits of a value: a constant and a multiple of each register as it was at the
// beginning, all modulo 16.
struct Form {
  std::array<uint8_t, 16> factors = {};
  uint8_t constant = 0;
  bool operator==(const Form&) const = default;

  bool IsConstant() const {
    return std::all_of(factors.begin(), factors.end(), [](uint8_t f) { return f == 0; });
  }
};
using Value = std::optional<Form>;  // nullopt: not known

Value Constant(uint64_t value) { return Form{.constant = static_cast<uint8_t>(value & 15)}; }

Value Times(const Value& value, uint64_t factor) {
  if (factor % 16 == 0) return Constant(0);
  if (!value.has_value()) return value;
  Form product = *value;
  for (uint8_t& f : product.factors) f = static_cast<uint8_t>(f * factor & 15);
  product.constant = static_cast<uint8_t>(product.constant * factor & 15);
  return product;
}

Value Plus(const Value& a, const Value& b) {
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  Form sum = *a;
  for (size_t i = 0; i < sum.factors.size(); ++i)
    sum.factors[i] = (sum.factors[i] + b->factors[i]) & 15;
  sum.constant = (sum.constant + b->constant) & 15;
  return sum;
}

Value Minus(const Value& a, const Value& b) { return Plus(a, Times(b, 15)); }

bool IsGpr(ZydisRegister reg) {
  switch (ZydisRegisterGetClass(reg)) {
    case ZYDIS_REGCLASS_GPR8:
      return reg < ZYDIS_REGISTER_AH || reg > ZYDIS_REGISTER_BH;
    case ZYDIS_REGCLASS_GPR16:
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_GPR64:
      return true;
    default:
      return false;
  }
}

int IndexOf(ZydisRegister reg) {
  return ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg));
}

// The registers' low bits, on the way through a block.
class LowBits {
 public:
  LowBits() {
    for (int i = 0; i < 16; ++i) {
      Form form;
      form.factors[i] = 1;
      values_[i] = form;
    }
  }

  Value Address(const ZydisDecodedOperandMem& memory, uint64_t next) const;
  // What `form`, of the registers at the beginning, is of those at present.
  Value After(const Form& form) const;
  // Requires: `next` is the address after it.
  void Execute(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
               uint64_t next);

 private:
  Value Of(const ZydisDecodedOperand& operand) const;
  Value Result(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
               uint64_t next) const;
  Value And(const Value& value, const ZydisDecodedOperand& mask) const;

  std::array<Value, 16> values_;
};

Value LowBits::Of(const ZydisDecodedOperand& operand) const {
  if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return Constant(operand.imm.value.u);
  if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER || !IsGpr(operand.reg.value)) return std::nullopt;
  return values_[IndexOf(operand.reg.value)];
}

Value LowBits::Address(const ZydisDecodedOperandMem& memory, uint64_t next) const {
  if (memory.segment == ZYDIS_REGISTER_FS || memory.segment == ZYDIS_REGISTER_GS) {
    return std::nullopt;
  }
  Value address = Constant(memory.disp.has_displacement ? memory.disp.value : 0);
  if (memory.base == ZYDIS_REGISTER_RIP || memory.base == ZYDIS_REGISTER_EIP) {
    address = Plus(address, Constant(next));
  } else if (memory.base != ZYDIS_REGISTER_NONE) {
    address = Plus(address, values_[IndexOf(memory.base)]);
  }
  if (memory.index != ZYDIS_REGISTER_NONE) {
    address = Plus(address, Times(values_[IndexOf(memory.index)], memory.scale));
  }
  return address;
}

Value LowBits::After(const Form& form) const {
  Value sum = Constant(form.constant);
  for (size_t i = 0; i < form.factors.size(); ++i)
    sum = Plus(sum, Times(values_[i], form.factors[i]));
  return sum;
}

Value LowBits::And(const Value& value, const ZydisDecodedOperand& mask) const {
  if (mask.type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return std::nullopt;
  const uint64_t bits = mask.imm.value.u & 15;
  if (bits == 0) return Constant(0);
  if (bits == 15) return value;
  if (!value.has_value() || !value->IsConstant()) return std::nullopt;
  return Constant(value->constant & bits);
}

// What the first operand gets.
Value LowBits::Result(const ZydisDecodedInstruction& instruction,
                      const ZydisDecodedOperand* operands, uint64_t next) const {
  const ZydisDecodedOperand& first = operands[0];
  const ZydisDecodedOperand& second = operands[1];
  const int count = instruction.operand_count_visible;
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
      return Of(second);
    case ZYDIS_MNEMONIC_LEA:
      return Address(second.mem, next);
    case ZYDIS_MNEMONIC_ADD:
      return Plus(Of(first), Of(second));
    case ZYDIS_MNEMONIC_SUB:
      return Minus(Of(first), Of(second));
    case ZYDIS_MNEMONIC_INC:
      return Plus(Of(first), Constant(1));
    case ZYDIS_MNEMONIC_DEC:
      return Minus(Of(first), Constant(1));
    case ZYDIS_MNEMONIC_NEG:
      return Times(Of(first), 15);
    case ZYDIS_MNEMONIC_AND:
      return And(Of(first), second);
    case ZYDIS_MNEMONIC_XOR:
      if (second.type == ZYDIS_OPERAND_TYPE_REGISTER && first.reg.value == second.reg.value) {
        return Constant(0);
      }
      return std::nullopt;
    case ZYDIS_MNEMONIC_SHL: {
      if (second.type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return std::nullopt;
      const uint64_t by = second.imm.value.u & (instruction.operand_width == 64 ? 63 : 31);
      return by >= 4 ? Constant(0) : Times(Of(first), uint64_t{1} << by);
    }
    case ZYDIS_MNEMONIC_IMUL:
      if (count != 3 || operands[2].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return std::nullopt;
      return Times(Of(second), operands[2].imm.value.u);
    default:
      return std::nullopt;
  }
}

void LowBits::Execute(const ZydisDecodedInstruction& instruction,
                      const ZydisDecodedOperand* operands, uint64_t next) {
  const Value rsp = values_[4], rbp = values_[5];
  const Value result =
      instruction.operand_count_visible > 0 ? Result(instruction, operands, next) : std::nullopt;
  for (int i = 0; i < instruction.operand_count; ++i) {
    if (operands[i].type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
    if ((operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) continue;
    const ZydisRegisterClass kind = ZydisRegisterGetClass(operands[i].reg.value);
    if (kind < ZYDIS_REGCLASS_GPR8 || kind > ZYDIS_REGCLASS_GPR64) continue;
    const bool known = i == 0 && IsGpr(operands[i].reg.value) &&
                       operands[i].visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
    values_[IndexOf(operands[i].reg.value)] = known ? result : std::nullopt;
  }
  const uint64_t bytes = instruction.operand_width / 8;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_PUSH) {
    values_[4] = Minus(rsp, Constant(bytes));
  } else if (instruction.mnemonic == ZYDIS_MNEMONIC_POP &&
             operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
             operands[0].reg.value != ZYDIS_REGISTER_RSP &&
             operands[0].reg.value != ZYDIS_REGISTER_SP) {
    values_[4] = Plus(rsp, Constant(bytes));
  } else if (instruction.mnemonic == ZYDIS_MNEMONIC_LEAVE && bytes == 8) {
    values_[4] = Plus(rbp, Constant(8));
  }
}

// nullopt: too many terms.
std::optional<AlignmentCheck> CheckOf(const Form& form) {
  AlignmentCheck check;
  check.constant = form.constant;
  for (uint8_t i = 0; i < form.factors.size(); ++i) {
    if (form.factors[i] == 0) continue;
    if (check.term_count == AlignmentCheck::kMostTerms) return std::nullopt;
    check.terms[check.term_count++] = {i, form.factors[i]};
  }
  return check;
}

}  // namespace

const ZydisDecodedOperand* AlignedOperand(const ZydisDecodedInstruction& instruction,
                                          const ZydisDecodedOperand* operands) {
  if (instruction.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) return nullptr;
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_LDDQU:
    case ZYDIS_MNEMONIC_PCMPESTRI:
    case ZYDIS_MNEMONIC_PCMPESTRM:
    case ZYDIS_MNEMONIC_PCMPISTRI:
    case ZYDIS_MNEMONIC_PCMPISTRM:
      return nullptr;
    default:
      break;
  }
  bool vector = false;
  const ZydisDecodedOperand* memory = nullptr;
  for (int i = 0; i < instruction.operand_count_visible; ++i) {
    const ZydisDecodedOperand& operand = operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.size == 128) memory = &operand;
    vector |= operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
              ZydisRegisterGetClass(operand.reg.value) == ZYDIS_REGCLASS_XMM;
  }
  return vector ? memory : nullptr;
}

BlockAlignment AlignmentOf(uint64_t address, absl::Span<const uint8_t> code) {
  BlockAlignment result;
  std::vector<Form> forms;
  LowBits bits;
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  while (!code.empty() && Decode(code, &instruction, operands)) {
    address += instruction.length;
    code.remove_prefix(instruction.length);
    if (const ZydisDecodedOperand* operand = AlignedOperand(instruction, operands)) {
      const Value value = bits.Address(operand->mem, address);
      if (!value.has_value()) {
        result.unknown = true;
      } else if (std::find(forms.begin(), forms.end(), *value) == forms.end()) {
        forms.push_back(*value);
      }
    }
    bits.Execute(instruction, operands, address);
  }
  for (const Form& form : forms) {
    if (form == Form()) continue;
    const auto check = CheckOf(form);
    result.unknown |= !check.has_value();
    if (check.has_value()) result.checks.push_back(*check);
    result.kept &= bits.After(form) == Value(form);
  }
  return result;
}

namespace {

uint64_t AddressOf(const ZydisDecodedOperandMem& memory, uint64_t next,
                   absl::Span<const uint64_t> gpr, uint64_t fs_base, uint64_t gs_base) {
  uint64_t at = memory.disp.has_displacement ? static_cast<uint64_t>(memory.disp.value) : 0;
  if (memory.segment == ZYDIS_REGISTER_FS) at += fs_base;
  if (memory.segment == ZYDIS_REGISTER_GS) at += gs_base;
  if (memory.base == ZYDIS_REGISTER_RIP || memory.base == ZYDIS_REGISTER_EIP) {
    at += next;
  } else if (memory.base != ZYDIS_REGISTER_NONE) {
    at += gpr[IndexOf(memory.base)];
  }
  if (memory.index != ZYDIS_REGISTER_NONE) at += gpr[IndexOf(memory.index)] * memory.scale;
  return at;
}

}  // namespace

bool OperandIsAligned(uint64_t address, absl::Span<const uint8_t> code,
                      absl::Span<const uint64_t> gpr, uint64_t fs_base, uint64_t gs_base) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!Decode(code, &instruction, operands)) return true;
  const ZydisDecodedOperand* operand = AlignedOperand(instruction, operands);
  if (operand == nullptr) return true;
  const uint64_t at = AddressOf(operand->mem, address + instruction.length, gpr, fs_base, gs_base);
  return at % AlignmentCheck::kModulus == 0;
}

bool AccessesAreAligned(uint64_t address, absl::Span<const uint8_t> code,
                        absl::Span<const uint64_t> gpr, uint64_t fs_base, uint64_t gs_base) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!Decode(code, &instruction, operands)) return true;
  for (int i = 0; i < instruction.operand_count; ++i) {
    const ZydisDecodedOperand& operand = operands[i];
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.type == ZYDIS_MEMOP_TYPE_AGEN) {
      continue;
    }
    // What has no natural alignment, as images of registers, is taken to need the strictest.
    const uint64_t bytes = operand.size / 8;
    const uint64_t modulus = bytes <= 8 && std::has_single_bit(bytes) ? bytes : 16;
    const uint64_t at = AddressOf(operand.mem, address + instruction.length, gpr, fs_base, gs_base);
    if (at % modulus != 0) return false;
  }
  return true;
}

}  // namespace hindsight
