// What CPUID tells a guest: the host's identity, with the features the emulator runs fast.
//
// Programs choose their code by it, so a feature is offered only if its instructions are emulated;
// one used all the same is run on the host, right but slow.

#ifndef HINDSIGHT_EMULATOR_CPUID_H_
#define HINDSIGHT_EMULATOR_CPUID_H_

#include <cstdint>

namespace hindsight {

struct CpuidResult {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
};

// The answer given to a guest that executes CPUID with eax = `leaf`, ecx = `subleaf`.
CpuidResult AnswerCpuid(uint32_t leaf, uint32_t subleaf);

// The host's own answer.
CpuidResult HostCpuid(uint32_t leaf, uint32_t subleaf);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPUID_H_
