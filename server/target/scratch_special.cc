// The instructions that the emulator leaves to its caller, in a throw-away copy of the process:
// system calls, and the few others whose result needs no host processor.

#include <x86intrin.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "isa/cpuid.h"
#include "server/target/scratch_process.h"
#include "server/target/scratch_xstate.h"

namespace hindsight {
namespace {

constexpr uint64_t kLow32 = 0xffffffff;

}  // namespace

void ScratchProcess::Advance(RegisterFile registers, uint64_t length) {
  registers.rip += length;
  cpu().SetRegisters(registers);
  cpu().set_count(cpu().count() + 1);
}

std::optional<RunStop> ScratchProcess::Special(const Instruction& instruction) {
  if (instruction.policy == Policy::kSyscall) return Syscall();
  RegisterFile registers = cpu().registers();
  if (!Compute(instruction, &registers) && !SaveOrRestore(&registers)) {
    return Refuse(absl::StrCat("instruction ", MnemonicName(instruction.mnemonic)), SIGILL);
  }
  Advance(registers, instruction.length);
  return std::nullopt;
}

std::optional<RunStop> ScratchProcess::Syscall() {
  RegisterFile registers = cpu().registers();
  const std::variant<int64_t, ScratchKernel::Refusal> answer = kernel_.Call(thread_, registers);
  if (const auto* refusal = std::get_if<ScratchKernel::Refusal>(&answer)) {
    return Refuse(refusal->what, refusal->signal);
  }
  constexpr uint64_t kSyscallBytes = 2;
  registers.gpr[kRcx] = registers.rip + kSyscallBytes;
  registers.gpr[kR11] = registers.rflags;
  registers.gpr[kRax] = static_cast<uint64_t>(std::get<int64_t>(answer));
  Advance(registers, kSyscallBytes);
  return std::nullopt;
}

bool ScratchProcess::SaveOrRestore(RegisterFile* registers) {
  uint8_t code[15];
  const size_t size = machine_->ReadMemory(registers->rip, absl::MakeSpan(code));
  return ExecuteXstate({code, size}, machine_.get(), registers);
}

bool ScratchProcess::Compute(const Instruction& instruction, RegisterFile* registers) {
  uint64_t* gpr = registers->gpr;
  if (instruction.policy == Policy::kCpuid) {
    CpuidResult answer = AnswerCpuid(CpuModel::kPortable, gpr[kRax], gpr[kRcx]);
    gpr[kRax] = answer.eax;
    gpr[kRbx] = answer.ebx;
    gpr[kRcx] = answer.ecx;
    gpr[kRdx] = answer.edx;
    return true;
  }
  const absl::string_view name = MnemonicName(instruction.mnemonic);
  if (name == "xgetbv" && (gpr[kRcx] & kLow32) == 0) {
    gpr[kRax] = XstateComponents();
    gpr[kRdx] = 0;
    return true;
  }
  if (name != "rdtsc" && name != "rdtscp") return false;
  const uint64_t now = __rdtsc();
  gpr[kRax] = now & kLow32;
  gpr[kRdx] = now >> 32;
  if (name == "rdtscp") gpr[kRcx] = 0;  // processor 0
  return true;
}

}  // namespace hindsight
