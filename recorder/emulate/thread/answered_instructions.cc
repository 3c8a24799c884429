#include "recorder/emulate/thread/answered_instructions.h"

#include <Zydis/Zydis.h>
#include <x86intrin.h>

#include <cstdint>

namespace hindsight {
namespace {

constexpr uint64_t kLow32 = 0xffffffff;

void AnswerCpuid(CpuModel model, RegisterFile* registers) {
  const CpuidResult answer = AnswerCpuid(model, static_cast<uint32_t>(registers->gpr[kRax]),
                                         static_cast<uint32_t>(registers->gpr[kRcx]));
  registers->gpr[kRax] = answer.eax;
  registers->gpr[kRbx] = answer.ebx;
  registers->gpr[kRcx] = answer.ecx;
  registers->gpr[kRdx] = answer.edx;
}

void AnswerRdtsc(bool with_processor, RegisterFile* registers) {
  unsigned processor = 0;
  const uint64_t ticks = __rdtscp(&processor);
  registers->gpr[kRax] = ticks & kLow32;
  registers->gpr[kRdx] = ticks >> 32;
  if (with_processor) registers->gpr[kRcx] = processor;
}

}  // namespace

bool IsAnswered(const Instruction& instruction, bool may_forbid_tsc) {
  if (instruction.policy == Policy::kCpuid) return true;
  return instruction.policy == Policy::kNondeterministic && !may_forbid_tsc &&
         (instruction.mnemonic == ZYDIS_MNEMONIC_RDTSC ||
          instruction.mnemonic == ZYDIS_MNEMONIC_RDTSCP);
}

RegisterFile AnswerInstruction(const Instruction& instruction, CpuModel model,
                               const RegisterFile& before) {
  RegisterFile after = before;
  after.rip += instruction.length;
  if (instruction.policy == Policy::kCpuid) {
    AnswerCpuid(model, &after);
  } else {
    AnswerRdtsc(instruction.mnemonic == ZYDIS_MNEMONIC_RDTSCP, &after);
  }
  return after;
}

}  // namespace hindsight
