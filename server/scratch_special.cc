// The instructions that the emulator leaves to its user, as a throw-away copy of the process has
// them: those few whose result needs no host processor.

#include <Zydis/Zydis.h>
#include <x86intrin.h>

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "emulator/cpuid.h"
#include "server/scratch_process.h"

namespace hindsight {
namespace {

constexpr uint64_t kLow32 = 0xffffffff;

}  // namespace

void ScratchProcess::Advance(RegisterFile registers, uint64_t length) {
  registers.rip += length;
  cpu_->SetRegisters(registers);
  cpu_->set_count(cpu_->count() + 1);
}

std::optional<StopEvent> ScratchProcess::Special(const Instruction& instruction) {
  if (instruction.policy == Policy::kSyscall) return Syscall();
  RegisterFile registers = cpu_->registers();
  if (!Compute(instruction, &registers)) {
    return Refuse(absl::StrCat("instruction ", MnemonicName(instruction.mnemonic)), SIGILL);
  }
  Advance(registers, instruction.length);
  return std::nullopt;
}

bool ScratchProcess::Compute(const Instruction& instruction, RegisterFile* registers) {
  uint64_t* gpr = registers->gpr;
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_CPUID: {
      CpuidResult answer = AnswerCpuid(gpr[kRax], gpr[kRcx]);
      gpr[kRax] = answer.eax;
      gpr[kRbx] = answer.ebx;
      gpr[kRcx] = answer.ecx;
      gpr[kRdx] = answer.edx;
      return true;
    }
    case ZYDIS_MNEMONIC_RDTSCP:
      gpr[kRcx] = 0;
      [[fallthrough]];
    case ZYDIS_MNEMONIC_RDTSC: {
      uint64_t now = __rdtsc();
      gpr[kRax] = now & kLow32;
      gpr[kRdx] = now >> 32;
      return true;
    }
    // The dynamic linker's, when a function is called for the first time.
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
    case ZYDIS_MNEMONIC_STMXCSR:
    case ZYDIS_MNEMONIC_LDMXCSR:
      return ComputeInMemory(registers);
    default:
      return false;
  }
}

namespace {

// The memory image of FXSAVE64.
struct FxImage {
  uint16_t fcw, fsw;
  uint8_t ftw, reserved;
  uint16_t fop;
  uint64_t fip, fdp;
  uint32_t mxcsr, mxcsr_mask;
  uint64_t st[8][2];
  uint64_t xmm[16][2];
  uint8_t unused[96];
};
static_assert(sizeof(FxImage) == 512);

void ToImage(const RegisterFile& registers, FxImage* image) {
  image->fcw = registers.fcw;
  image->fsw = registers.fsw;
  image->ftw = registers.ftw;
  image->fop = registers.fop;
  image->fip = registers.fip;
  image->fdp = registers.fdp;
  image->mxcsr = registers.mxcsr;
  std::memcpy(image->st, registers.st, sizeof(image->st));
  std::memcpy(image->xmm, registers.xmm, sizeof(image->xmm));
}

void FromImage(const FxImage& image, RegisterFile* registers) {
  registers->fcw = image.fcw;
  registers->fsw = image.fsw;
  registers->ftw = image.ftw;
  registers->fop = image.fop;
  registers->fip = image.fip;
  registers->fdp = image.fdp;
  registers->mxcsr = image.mxcsr;
  std::memcpy(registers->st, image.st, sizeof(image.st));
  std::memcpy(registers->xmm, image.xmm, sizeof(image.xmm));
}

struct MemoryInstruction {
  ZydisMnemonic mnemonic;
  uint64_t address;
};

// Decodes the instruction `code` at registers.rip, and where its memory operand is.
std::optional<MemoryInstruction> Decode(absl::Span<const uint8_t> code,
                                        const RegisterFile& registers) {
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
      !ZYAN_SUCCESS(
          ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &instruction, operands))) {
    return std::nullopt;
  }
  ZydisRegisterContext context = {};
  // Zydis numbers the general registers like their encoding.
  for (int i = 0; i < 16; ++i) context.values[ZYDIS_REGISTER_RAX + i] = registers.gpr[i];
  for (int i = 0; i < instruction.operand_count_visible; ++i) {
    if (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    ZyanU64 address = 0;
    if (!ZYAN_SUCCESS(ZydisCalcAbsoluteAddressEx(&instruction, &operands[i], registers.rip,
                                                 &context, &address))) {
      return std::nullopt;
    }
    if (operands[i].mem.segment == ZYDIS_REGISTER_FS) address += registers.fs_base;
    if (operands[i].mem.segment == ZYDIS_REGISTER_GS) address += registers.gs_base;
    return MemoryInstruction{instruction.mnemonic, address};
  }
  return std::nullopt;
}

template <typename T>
absl::Span<uint8_t> BytesOf(T* value) {
  return {reinterpret_cast<uint8_t*>(value), sizeof(T)};
}

}  // namespace

bool ScratchProcess::ComputeInMemory(RegisterFile* registers) {
  uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
  size_t known = ReadMemory(registers->rip, absl::MakeSpan(code));
  std::optional<MemoryInstruction> instruction =
      Decode(absl::MakeConstSpan(code).first(known), *registers);
  if (!instruction) return false;
  FxImage image = {};
  uint32_t mxcsr = static_cast<uint32_t>(registers->mxcsr);
  switch (instruction->mnemonic) {
    case ZYDIS_MNEMONIC_STMXCSR:
      return WriteMemory(instruction->address, BytesOf(&mxcsr)).ok();
    case ZYDIS_MNEMONIC_LDMXCSR:
      if (ReadMemory(instruction->address, BytesOf(&mxcsr)) != sizeof(mxcsr)) return false;
      registers->mxcsr = mxcsr;
      return true;
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
      // What is behind xmm15, and the mask, stays as it was.
      if (ReadMemory(instruction->address, BytesOf(&image)) != sizeof(image)) return false;
      ToImage(*registers, &image);
      return WriteMemory(instruction->address, BytesOf(&image)).ok();
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
      if (ReadMemory(instruction->address, BytesOf(&image)) != sizeof(image)) return false;
      FromImage(image, registers);
      return true;
    default:
      return false;
  }
}

}  // namespace hindsight
