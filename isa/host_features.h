// Which extensions of its processor a thread has used, and which the host has.
//
// Names are those of /proc/cpuinfo: its flags, and for instructions whose result is each vendor's
// own (approximations), its vendor_id.

#ifndef HINDSIGHT_ISA_HOST_FEATURES_H_
#define HINDSIGHT_ISA_HOST_FEATURES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hindsight {

enum class HostFeature : uint8_t {
  kAbm,
  kAes,
  kAvx,
  kAvx2,
  kAvx512Bf16,
  kAvx512Bitalg,
  kAvx512Bw,
  kAvx512Cd,
  kAvx512Dq,
  kAvx512F,
  kAvx512Fp16,
  kAvx512Ifma,
  kAvx512Vbmi,
  kAvx512Vbmi2,
  kAvx512Vl,
  kAvx512Vnni,
  kAvx512Vpopcntdq,
  kAvxVnni,
  kBmi1,
  kBmi2,
  kClflushopt,
  kClwb,
  kF16c,
  kFma,
  kFsgsbase,
  kGfni,
  kMovbe,
  kPclmulqdq,
  kSha,
  kSse3,
  kSse41,
  kSse42,
  kSse4a,
  kSsse3,
  kVaes,
  kVpclmulqdq,
  kVendorAmd,
  kVendorIntel,
  kVendorOther,
};

// A set of them. A value; any thread.
class HostFeatures {
 public:
  HostFeatures() = default;
  HostFeatures(std::initializer_list<HostFeature> features) {
    for (HostFeature feature : features) Add(feature);
  }

  // What this machine has and its kernel has enabled. Determined once.
  static HostFeatures OfThisHost();
  // Unknown names are ignored.
  static HostFeatures FromNames(absl::Span<const std::string> names);
  // The vendor feature of this host.
  static HostFeature Vendor();

  void Add(HostFeature feature) { bits_ |= Bit(feature); }
  void Add(HostFeatures others) { bits_ |= others.bits_; }
  void Remove(HostFeatures others) { bits_ &= ~others.bits_; }

  // For those who keep them as a number; what it means may change with every build.
  static HostFeatures FromBits(uint64_t bits);
  uint64_t bits() const { return bits_; }

  bool empty() const { return bits_ == 0; }
  bool Has(HostFeature feature) const { return (bits_ & Bit(feature)) != 0; }
  bool Has(HostFeatures others) const { return (others.bits_ & ~bits_) == 0; }
  bool operator==(const HostFeatures&) const = default;

  // Sorted.
  std::vector<std::string> Names() const;

 private:
  static uint64_t Bit(HostFeature feature) { return uint64_t{1} << static_cast<int>(feature); }
  uint64_t bits_ = 0;
};

// Whether this machine has AVX-512 with the instructions on masks and vectors of all sizes that
// translated code uses: BW, DQ and VL.
bool HostHasMasks();

// The bits by which CPUID leaf `leaf`, `subleaf` reports `features`: eax, ebx, ecx, edx.
std::array<uint32_t, 4> CpuidBits(HostFeatures features, uint32_t leaf, uint32_t subleaf);

// The names in `required` that `host` lacks, unknown names included.
std::vector<std::string> MissingFeatures(absl::Span<const std::string> required, HostFeatures host);

// The features of `host` that can be used to replay a trace that needs `required`: all, except for
// the vendor's if the trace was made on another vendor's processor.
HostFeatures UsableFor(absl::Span<const std::string> required, HostFeatures host);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_HOST_FEATURES_H_
