#include "emulator/cpuid.h"

#include <cpuid.h>

namespace hindsight {
namespace {

constexpr uint32_t Bit(int bit) { return uint32_t{1} << bit; }

// Leaf 1. Left out because not emulated: pclmulqdq, monitor, vmx, fma, movbe, popcnt, tsc deadline,
// xsave and with it osxsave and AVX, f16c, rdrand.
constexpr uint32_t kLeaf1Ecx = Bit(0) |   // sse3
                               Bit(9) |   // ssse3
                               Bit(13) |  // cmpxchg16b
                               Bit(19) |  // sse4.1
                               Bit(20) |  // sse4.2
                               Bit(25) |  // aes
                               Bit(31);   // a hypervisor is present
// All but mmx (23), which runs on the host, could be kept; it is architectural in 64-bit mode and
// programs take its absence for a broken CPU.
constexpr uint32_t kLeaf1Edx = ~uint32_t{0};

// Leaf 7. adx only: bmi1, bmi2 and the AVX families are VEX encoded; erms and fsrm make libc prefer
// rep movsb, which the emulator runs byte by byte; rtm, sha, gfni, rdseed, clflushopt, clwb, rdpid,
// fsgsbase and umip either run on the host or are the kernel's.
constexpr uint32_t kLeaf7Ebx = Bit(19);

// Leaf 0x80000001. lahf, lzcnt (abm), 3dnow prefetch; not sse4a, xop, fma4, tbm, mwaitx, topoext.
constexpr uint32_t kExtended1Ecx = Bit(0) | Bit(5) | Bit(8);
constexpr uint32_t kExtended1Edx = ~(Bit(22) | Bit(30) | Bit(31));  // not mmxext, 3dnow

constexpr uint32_t kMaxBasicLeaf = 0x16;
constexpr uint32_t kMaxExtendedLeaf = 0x80000008;
// Cache topology of AMD, which libc reads for the sizes that steer memcpy.
constexpr uint32_t kAmdCacheLeaf = 0x8000001d;

uint32_t Smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

}  // namespace

CpuidResult HostCpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidResult result;
  __cpuid_count(leaf, subleaf, result.eax, result.ebx, result.ecx, result.edx);
  return result;
}

CpuidResult AnswerCpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidResult result = HostCpuid(leaf, subleaf);
  switch (leaf) {
    case 0:
      result.eax = Smaller(result.eax, kMaxBasicLeaf);
      return result;
    case 1:
      // The initial APIC id changes with the core that happens to answer.
      result.ebx &= 0x0000ffff;
      result.ebx |= Bit(16);
      result.ecx &= kLeaf1Ecx;
      result.edx &= kLeaf1Edx;
      return result;
    case 7: {
      const uint32_t ebx = result.ebx & kLeaf7Ebx;
      return subleaf == 0 ? CpuidResult{0, ebx, 0, 0} : CpuidResult{};
    }
    case 2:  // cache descriptors, Intel
    case 4:  // caches, Intel
    case 0x15:
    case 0x16:
      return result;
    case 0x80000000:
      result.eax =
          result.eax >= kAmdCacheLeaf ? kAmdCacheLeaf : Smaller(result.eax, kMaxExtendedLeaf);
      return result;
    case 0x80000001:
      result.ecx &= kExtended1Ecx;
      result.edx &= kExtended1Edx;
      return result;
    case 0x80000002:  // the brand, three leaves
    case 0x80000003:
    case 0x80000004:
    case 0x80000005:  // caches, AMD
    case 0x80000006:
    case 0x80000007:
    case kAmdCacheLeaf:
      return result;
    case 0x80000008:
      return {result.eax, 0, result.ecx, 0};
    default:
      // Topology (which core answers), xsave areas, power management, performance counters, the
      // hypervisor's own leaves: nothing.
      return {};
  }
}

}  // namespace hindsight
