// The instructions that the emulator leaves to its user, as a throw-away copy of the process has
// them: those few whose result needs no host processor.

#include <x86intrin.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "isa/cpuid.h"
#include "server/target/scratch_process.h"

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
  if (instruction.policy == Policy::kCpuid) {
    CpuidResult answer = AnswerCpuid(CpuModel::kPortable, gpr[kRax], gpr[kRcx]);
    gpr[kRax] = answer.eax;
    gpr[kRbx] = answer.ebx;
    gpr[kRcx] = answer.ecx;
    gpr[kRdx] = answer.edx;
    return true;
  }
  const absl::string_view name = MnemonicName(instruction.mnemonic);
  if (name != "rdtsc" && name != "rdtscp") return false;
  const uint64_t now = __rdtsc();
  gpr[kRax] = now & kLow32;
  gpr[kRdx] = now >> 32;
  if (name == "rdtscp") gpr[kRcx] = 0;  // processor 0
  return true;
}

}  // namespace hindsight
