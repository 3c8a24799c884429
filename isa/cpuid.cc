#include "isa/cpuid.h"

#include <cpuid.h>

#include <array>

#include "isa/host_features.h"

namespace hindsight {
namespace {

constexpr uint32_t Bit(int bit) { return uint32_t{1} << bit; }

// The features of one leaf and subleaf, bit by bit.
struct FeatureMask {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Portable, leaf 1. Left out because not emulated: pclmulqdq, monitor, vmx, fma, movbe, popcnt, tsc
// deadline, xsave and with it osxsave and AVX, f16c, rdrand.
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

// Portable, leaf 7. adx only: bmi1, bmi2 and the AVX families are VEX encoded; erms and fsrm make
// libc prefer rep movsb, which the emulator runs byte by byte; rtm, sha, gfni, rdseed, clflushopt,
// clwb, rdpid, fsgsbase and umip either run on the host or are the kernel's.
constexpr uint32_t kLeaf7Ebx = Bit(19);

// Portable, leaf 0x80000001. lahf, lzcnt (abm), 3dnow prefetch; not sse4a, xop, fma4, tbm, mwaitx,
// topoext.
constexpr uint32_t kExtended1Ecx = Bit(0) | Bit(5) | Bit(8);
constexpr uint32_t kExtended1Edx = ~(Bit(22) | Bit(30) | Bit(31));  // not mmxext, 3dnow

// What the host model offers beside those features of the host that host assist executes
// (host_features.h). Left out because they cannot be recorded as the hardware has them: monitor,
// waitpkg, hle and rtm (a transaction cannot be stepped), mpx, pku (the view knows no protection
// keys), shadow stacks and ibt (registers of their own), amx (so much state that every stop would
// have to carry it), movdir64b, enqcmd, uintr, clzero, xop, fma4, tbm, 3dnow; and because they are
// the kernel's: vmx, svm, smx, performance counters. erms and fsrm are left out since the emulator
// runs rep movsb byte by byte, and libc's vector loops give the same result faster.
constexpr uint32_t kHostLeaf1Ecx = Bit(17) |     // pcid
                                   Bit(21) |     // x2apic
                                   Bit(23) |     // popcnt
                                   Bit(24) |     // tsc deadline
                                   Bit(26) |     // xsave
                                   Bit(27) |     // osxsave
                                   Bit(30);      // rdrand
constexpr uint32_t kHostLeaf7Ebx = Bit(1) |      // tsc_adjust
                                   Bit(6) |      // x87 data pointer on exceptions only
                                   Bit(7) |      // smep
                                   Bit(10) |     // invpcid
                                   Bit(13) |     // x87 selectors are zero
                                   Bit(18) |     // rdseed
                                   Bit(20);      // smap
constexpr uint32_t kHostLeaf7Ecx = Bit(2) |      // umip
                                   Bit(16) |     // la57
                                   Bit(22);      // rdpid
constexpr uint32_t kHostLeaf7Edx = Bit(8);       // vp2intersect: stepped natively
constexpr uint32_t kHostExtended1Ecx = Bit(1);   // cmp_legacy
constexpr uint32_t kHostExtended1Edx = Bit(22);  // mmxext

constexpr uint32_t kMaxBasicLeaf = 0x16;
constexpr uint32_t kMaxSubleaf7 = 1;
constexpr uint32_t kExtended1 = 0x80000001;
constexpr uint32_t kMaxExtendedLeaf = 0x80000008;
// Cache topology of AMD, which libc reads for the sizes that steer memcpy.
constexpr uint32_t kAmdCacheLeaf = 0x8000001d;

uint32_t Smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

FeatureMask PortableFeatures(uint32_t leaf, uint32_t subleaf) {
  if (leaf == 1) return {0, 0, kLeaf1Ecx, kLeaf1Edx};
  if (leaf == 7 && subleaf == 0) return {0, kLeaf7Ebx, 0, 0};
  if (leaf == kExtended1) return {0, 0, kExtended1Ecx, kExtended1Edx};
  return {};
}

FeatureMask FeaturesOf(CpuModel model, uint32_t leaf, uint32_t subleaf) {
  FeatureMask mask = PortableFeatures(leaf, subleaf);
  if (model == CpuModel::kPortable) return mask;
  const std::array<uint32_t, 4> assisted = CpuidBits(HostFeatures::OfThisHost(), leaf, subleaf);
  mask.eax |= assisted[0];
  mask.ebx |= assisted[1];
  mask.ecx |= assisted[2];
  mask.edx |= assisted[3];
  if (leaf == 1) mask.ecx |= kHostLeaf1Ecx;
  if (leaf == kExtended1) {
    mask.ecx |= kHostExtended1Ecx;
    mask.edx |= kHostExtended1Edx;
  }
  if (leaf == 7 && subleaf == 0) {
    mask.ebx |= kHostLeaf7Ebx;
    mask.ecx |= kHostLeaf7Ecx;
    mask.edx |= kHostLeaf7Edx;
  }
  return mask;
}

// Leaf 7, whose first subleaf's eax says how many there are.
CpuidResult StructuredFeatures(CpuModel model, uint32_t subleaf, const CpuidResult& host) {
  const FeatureMask mask = FeaturesOf(model, 7, subleaf);
  CpuidResult result = {host.eax & mask.eax, host.ebx & mask.ebx, host.ecx & mask.ecx,
                        host.edx & mask.edx};
  if (subleaf == 0 && model == CpuModel::kHost) result.eax = Smaller(host.eax, kMaxSubleaf7);
  return result;
}

}  // namespace

std::optional<CpuModel> CpuModelNamed(absl::string_view name) {
  for (CpuModel model : {CpuModel::kPortable, CpuModel::kHost}) {
    if (name == NameOf(model)) return model;
  }
  return std::nullopt;
}

const char* NameOf(CpuModel model) { return model == CpuModel::kHost ? "host" : "portable"; }

CpuidResult HostCpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidResult result;
  __cpuid_count(leaf, subleaf, result.eax, result.ebx, result.ecx, result.edx);
  return result;
}

CpuidResult AnswerCpuid(CpuModel model, uint32_t leaf, uint32_t subleaf) {
  CpuidResult result = HostCpuid(leaf, subleaf);
  // ecx means nothing but where there are subleaves: programs leave anything in it.
  const FeatureMask mask = FeaturesOf(model, leaf, leaf == 7 ? subleaf : 0);
  switch (leaf) {
    case 0:
      result.eax = Smaller(result.eax, kMaxBasicLeaf);
      return result;
    case 1:
      // The initial APIC id changes with the core that happens to answer.
      result.ebx &= 0x0000ffff;
      result.ebx |= Bit(16);
      result.ecx &= mask.ecx;
      result.edx &= mask.edx;
      return result;
    case 7:
      return StructuredFeatures(model, subleaf, result);
    case 0xd:
      // The XSAVE area is the hardware's, all of it: xsave and xgetbv are executed by the process.
      return model == CpuModel::kHost ? result : CpuidResult{};
    case 2:  // cache descriptors, Intel
    case 4:  // caches, Intel
    case 0x15:
    case 0x16:
      return result;
    case 0x80000000:
      result.eax =
          result.eax >= kAmdCacheLeaf ? kAmdCacheLeaf : Smaller(result.eax, kMaxExtendedLeaf);
      return result;
    case kExtended1:
      result.ecx &= mask.ecx;
      result.edx &= mask.edx;
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
      // Topology (which core answers), power management, performance counters, the
      // hypervisor's own leaves: nothing.
      return {};
  }
}

}  // namespace hindsight
