#include "emulator/assist.h"

#include <Zydis/Zydis.h>

#include <bit>
#include <cstring>

namespace hindsight {
namespace {

constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF
constexpr uint64_t kZeroFlag = 0x40;
// Bits of MXCSR that may be set (MXCSR_MASK of every processor with SSE2 and DAZ).
constexpr uint32_t kMxcsrMask = 0xffff;
// What fnclex clears: the exceptions, the stack fault, the summary and the busy bit.
constexpr uint64_t kX87Exceptions = 0x80ff;

// One assisted instruction being executed.
class Execution {
 public:
  Execution(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
            RegisterFile* registers, AssistMemory* memory)
      : instruction_(instruction), operands_(operands), registers_(registers), memory_(memory) {}

  bool Run() {
    switch (instruction_.mnemonic) {
      case ZYDIS_MNEMONIC_STMXCSR:
        return WriteOperand(operands_[0], registers_->mxcsr);
      case ZYDIS_MNEMONIC_LDMXCSR:
        return LoadMxcsr();
      case ZYDIS_MNEMONIC_FNSTSW:
        return WriteOperand(operands_[0], registers_->fsw);
      case ZYDIS_MNEMONIC_FNCLEX:
        registers_->fsw &= ~kX87Exceptions;
        return true;
      case ZYDIS_MNEMONIC_POPCNT:
        return PopulationCount();
      case ZYDIS_MNEMONIC_PAUSE:  // Unicorn leaves its loop for it, which miscounts
        return true;
      default:
        return false;
    }
  }

 private:
  bool LoadMxcsr() {
    uint64_t value = 0;
    if (!ReadOperand(operands_[0], &value) || (value & ~uint64_t{kMxcsrMask}) != 0) return false;
    registers_->mxcsr = value;
    return true;
  }

  bool PopulationCount() {
    uint64_t value = 0;
    if (!ReadOperand(operands_[1], &value)) return false;
    const auto count = static_cast<uint64_t>(std::popcount(value));
    if (!WriteOperand(operands_[0], count)) return false;
    registers_->rflags &= ~kArithmeticFlags;
    if (value == 0) registers_->rflags |= kZeroFlag;
    return true;
  }

  static int GprIndex(ZydisRegister name) {
    return ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name));
  }

  uint64_t AddressPart(ZydisRegister name) const {
    if (name == ZYDIS_REGISTER_NONE) return 0;
    if (name == ZYDIS_REGISTER_RIP || name == ZYDIS_REGISTER_EIP) {
      return registers_->rip + instruction_.length;
    }
    return registers_->gpr[GprIndex(name)];
  }

  uint64_t Address(const ZydisDecodedOperand& operand) const {
    uint64_t address = AddressPart(operand.mem.base) +
                       AddressPart(operand.mem.index) * operand.mem.scale +
                       static_cast<uint64_t>(operand.mem.disp.value);
    if (instruction_.address_width == 32) address &= 0xffff'ffff;
    if (operand.mem.segment == ZYDIS_REGISTER_FS) address += registers_->fs_base;
    if (operand.mem.segment == ZYDIS_REGISTER_GS) address += registers_->gs_base;
    return address;
  }

  bool ReadOperand(const ZydisDecodedOperand& operand, uint64_t* value) const {
    *value = 0;
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      return memory_->Read(Address(operand),
                           absl::MakeSpan(reinterpret_cast<uint8_t*>(value), operand.size / 8));
    }
    std::memcpy(value, &registers_->gpr[GprIndex(operand.reg.value)], operand.size / 8);
    return true;
  }

  bool WriteOperand(const ZydisDecodedOperand& operand, uint64_t value) {
    auto bytes = reinterpret_cast<const uint8_t*>(&value);
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      return memory_->Write(Address(operand), absl::MakeSpan(bytes, operand.size / 8));
    }
    uint64_t& gpr = registers_->gpr[GprIndex(operand.reg.value)];
    if (operand.size == 32) gpr = 0;  // writing 32 bits clears the rest
    std::memcpy(&gpr, bytes, operand.size / 8);
    return true;
  }

  const ZydisDecodedInstruction& instruction_;
  const ZydisDecodedOperand* operands_;
  RegisterFile* registers_;
  AssistMemory* memory_;
};

}  // namespace

bool IsAssisted(uint16_t mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_STMXCSR:
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_FNSTSW:
    case ZYDIS_MNEMONIC_FNCLEX:
    case ZYDIS_MNEMONIC_POPCNT:
    case ZYDIS_MNEMONIC_PAUSE:
      return true;
    default:
      return false;
  }
}

bool Assist(absl::Span<const uint8_t> code, RegisterFile* registers, AssistMemory* memory) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(
          ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &instruction, operands))) {
    return false;
  }
  RegisterFile after = *registers;
  if (!Execution(instruction, operands, &after, memory).Run()) return false;
  after.rip += instruction.length;
  *registers = after;
  return true;
}

}  // namespace hindsight
