// What CPUID reports to a guest: the host's identity, with the features that a CPU model offers.
//
// Programs select code paths by it. An instruction that is used without being offered is executed
// nevertheless, on the host if need be.
//
// Stateless; any thread.

#ifndef HINDSIGHT_ISA_CPUID_H_
#define HINDSIGHT_ISA_CPUID_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace hindsight {

enum class CpuModel : uint8_t {
  // Features whose instructions the emulator itself executes. The answer differs between hosts only
  // where they lack one of these.
  kPortable,
  // The host's own features, as far as their instructions are executed exactly: programs compute
  // what they compute natively.
  kHost,
};

// "portable" and "host", as the command line and manifests have them. nullopt: neither.
std::optional<CpuModel> CpuModelNamed(absl::string_view name);
const char* NameOf(CpuModel model);

struct CpuidResult {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
};

// The answer given to a guest that executes CPUID with eax = `leaf`, ecx = `subleaf`.
CpuidResult AnswerCpuid(CpuModel model, uint32_t leaf, uint32_t subleaf);

// The host's own answer.
CpuidResult HostCpuid(uint32_t leaf, uint32_t subleaf);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_CPUID_H_
