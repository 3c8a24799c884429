#include "emulator/assist/software_assist.h"

#include <Zydis/Zydis.h>

#include <bit>
#include <cstring>

#include "isa/host_registers.h"
#include "isa/operand_address.h"
#include "isa/x87_environment.h"

namespace hindsight {
namespace {

constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF
constexpr uint64_t kZeroFlag = 0x40;
// Bits of MXCSR that may be set (MXCSR_MASK of every processor with SSE2 and DAZ).
constexpr uint32_t kMxcsrMask = 0xffff;
// FXSAVE's image up to xmm15; the rest belongs to the program.
constexpr size_t kVectorBytes = 416;
constexpr uint64_t kVectorAlignment = 16;
constexpr uint64_t kLow32 = 0xffff'ffff;
// What fnclex clears: the exceptions, the stack fault, the summary and the busy bit.
constexpr uint64_t kX87Exceptions = 0x80ff;
constexpr uint64_t kX87Masks = 0x3f;
constexpr size_t kLineBytes = 64;

// One assisted instruction being executed.
class Execution {
 public:
  Execution(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
            RegisterFile* registers, GuestMemory* memory)
      : instruction_(instruction), operands_(operands), registers_(registers), memory_(memory) {}

  bool Run() {
    switch (instruction_.mnemonic) {
      case ZYDIS_MNEMONIC_STMXCSR:
      case ZYDIS_MNEMONIC_VSTMXCSR:
        return WriteOperand(operands_[0], registers_->mxcsr);
      case ZYDIS_MNEMONIC_LDMXCSR:
      case ZYDIS_MNEMONIC_VLDMXCSR:
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
      case ZYDIS_MNEMONIC_FNINIT:
        InitializeX87(registers_);
        return true;
      case ZYDIS_MNEMONIC_FNSTENV:
      case ZYDIS_MNEMONIC_FNSAVE:
      case ZYDIS_MNEMONIC_FLDENV:
      case ZYDIS_MNEMONIC_FRSTOR:
        return MoveX87();
      case ZYDIS_MNEMONIC_POPCNT:
        return PopulationCount();
      case ZYDIS_MNEMONIC_RDFSBASE:
        return WriteOperand(operands_[0], registers_->fs_base);
      case ZYDIS_MNEMONIC_RDGSBASE:
        return WriteOperand(operands_[0], registers_->gs_base);
      case ZYDIS_MNEMONIC_WRFSBASE:
        return SetBase(&registers_->fs_base);
      case ZYDIS_MNEMONIC_WRGSBASE:
        return SetBase(&registers_->gs_base);
      case ZYDIS_MNEMONIC_VZEROUPPER:
        ClearVectors(/*all=*/false);
        return true;
      case ZYDIS_MNEMONIC_VZEROALL:
        ClearVectors(/*all=*/true);
        return true;
      case ZYDIS_MNEMONIC_CLFLUSH:  // to the thread they are reads of a byte
      case ZYDIS_MNEMONIC_CLFLUSHOPT:
      case ZYDIS_MNEMONIC_CLWB:
        return TouchLine();
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

  // Without REX.W the two pointers are 32 bits, followed by selectors (zero in 64-bit mode).
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
    SetX87Control(registers_->fcw, registers_);
    return true;
  }

  bool MoveX87() {
    constexpr uint64_t kPending = 0x80;
    const bool loads = instruction_.mnemonic == ZYDIS_MNEMONIC_FLDENV ||
                       instruction_.mnemonic == ZYDIS_MNEMONIC_FRSTOR;
    if (loads && (registers_->fsw & kPending) != 0) return false;
    const uint64_t address = Address(operands_[0]);
    uint8_t state[kX87StateBytes];
    const auto environment = absl::MakeSpan(state, kX87EnvironmentBytes);
    switch (instruction_.mnemonic) {
      case ZYDIS_MNEMONIC_FLDENV:
        if (!memory_->Read(address, environment)) return false;
        LoadX87Environment(environment, registers_);
        return true;
      case ZYDIS_MNEMONIC_FRSTOR:
        if (!memory_->Read(address, absl::MakeSpan(state))) return false;
        LoadX87State(state, registers_);
        return true;
      case ZYDIS_MNEMONIC_FNSTENV:
        if (!memory_->Write(address, X87Environment(*registers_))) return false;
        SetX87Control(registers_->fcw | kX87Masks, registers_);
        return true;
      default:
        if (!memory_->Write(address, X87State(*registers_))) return false;
        InitializeX87(registers_);
        return true;
    }
  }

  bool SetBase(uint64_t* base) {
    const int bits = operands_[0].size;
    const uint64_t value =
        registers_->gpr[GprIndex(operands_[0].reg.value)] & (bits == 32 ? kLow32 : ~uint64_t{0});
    if (!IsCanonical(value)) return false;
    *base = value;
    return true;
  }

  void ClearVectors(bool all) {
    if (all) std::memset(registers_->xmm, 0, sizeof(registers_->xmm));
    std::memset(registers_->ymm_high, 0, sizeof(registers_->ymm_high));
    std::memset(registers_->zmm_high, 0, sizeof(registers_->zmm_high));
  }

  bool TouchLine() {
    uint8_t byte = 0;
    return memory_->Read(Address(operands_[0]) & ~(kLineBytes - 1), absl::MakeSpan(&byte, 1));
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

  uint64_t Address(const ZydisDecodedOperand& operand) const {
    return OperandAddress(instruction_, operand).Compute(*registers_);
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
  GuestMemory* memory_;
};

}  // namespace

bool HasSoftwareAssist(const ZydisDecodedInstruction& instruction) {
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_STMXCSR:
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_FNSTSW:
    case ZYDIS_MNEMONIC_FNCLEX:
    case ZYDIS_MNEMONIC_FNINIT:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
    case ZYDIS_MNEMONIC_POPCNT:
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_RDFSBASE:
    case ZYDIS_MNEMONIC_RDGSBASE:
    case ZYDIS_MNEMONIC_WRFSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE:
    case ZYDIS_MNEMONIC_CLFLUSH:
    case ZYDIS_MNEMONIC_CLFLUSHOPT:
    case ZYDIS_MNEMONIC_CLWB:
      // Not the encodings of the same name that only Knights Corner had.
      return instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
    case ZYDIS_MNEMONIC_VSTMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
    case ZYDIS_MNEMONIC_VZEROUPPER:
    case ZYDIS_MNEMONIC_VZEROALL:
      return instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX;
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FLDENV:
    case ZYDIS_MNEMONIC_FRSTOR:
      return instruction.operand_width != 16;  // another layout, which nobody uses
    default:
      return false;
  }
}

bool ExecuteInSoftware(const ZydisDecodedInstruction& instruction,
                       const ZydisDecodedOperand* operands, RegisterFile* registers,
                       GuestMemory* memory) {
  RegisterFile after = *registers;
  if (!Execution(instruction, operands, &after, memory).Run()) return false;
  after.rip += instruction.length;
  *registers = after;
  return true;
}

}  // namespace hindsight
