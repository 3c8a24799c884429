#include "emulator/assist.h"

#include <Zydis/Zydis.h>

#include <bit>
#include <cstring>

#include "emulator/host_registers.h"

namespace hindsight {
namespace {

constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF
constexpr uint64_t kZeroFlag = 0x40;
// Bits of MXCSR that may be set (MXCSR_MASK of every processor with SSE2 and DAZ).
constexpr uint32_t kMxcsrMask = 0xffff;
// The bits of the x87 control word that can be set and cleared, and the one that is always set.
constexpr uint64_t kX87ControlMask = 0x1f3f;
constexpr uint64_t kX87ControlFixed = 0x40;
constexpr uint64_t kX87Flags = 0x3f;
constexpr uint64_t kX87Summary = 0x8080;
// FXSAVE's image up to xmm15; what is behind is the program's.
constexpr size_t kVectorBytes = 416;
constexpr uint64_t kVectorAlignment = 16;
constexpr uint64_t kLow32 = 0xffff'ffff;
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
      case ZYDIS_MNEMONIC_FXSAVE:
      case ZYDIS_MNEMONIC_FXSAVE64:
        return SaveVectors();
      case ZYDIS_MNEMONIC_FXRSTOR:
      case ZYDIS_MNEMONIC_FXRSTOR64:
        return RestoreVectors();
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

  // Without REX.W the two pointers are 32 bits, with selectors (zero in 64-bit mode) behind them.
  bool has_wide_pointers() const { return instruction_.raw.rex.W != 0; }

  bool SaveVectors() {
    const uint64_t address = Address(operands_[0]);
    if (address % kVectorAlignment != 0) return false;
    user_fpregs_struct image = {};
    RegistersToVectors(*registers_, &image);
    image.mxcr_mask = kMxcsrMask;
    if (!has_wide_pointers()) {
      image.rip &= kLow32;
      image.rdp &= kLow32;
    }
    return memory_->Write(address,
                          absl::MakeSpan(reinterpret_cast<const uint8_t*>(&image), kVectorBytes));
  }

  bool RestoreVectors() {
    const uint64_t address = Address(operands_[0]);
    user_fpregs_struct image = {};
    if (address % kVectorAlignment != 0 ||
        !memory_->Read(address, absl::MakeSpan(reinterpret_cast<uint8_t*>(&image), kVectorBytes)) ||
        (image.mxcsr & ~kMxcsrMask) != 0) {
      return false;
    }
    if (!has_wide_pointers()) {
      image.rip &= kLow32;
      image.rdp &= kLow32;
    }
    VectorsToRegisters(image, registers_);
    registers_->fcw = (registers_->fcw & kX87ControlMask) | kX87ControlFixed;
    // Summary and busy say whether an exception that is not masked is pending.
    const bool pending = (registers_->fsw & ~registers_->fcw & kX87Flags) != 0;
    registers_->fsw = (registers_->fsw & ~kX87Summary) | (pending ? kX87Summary : 0);
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
    if (instruction_.address_width == 32) address &= kLow32;
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
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
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
