#include "isa/host_features.h"

#include <cpuid.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace hindsight {
namespace {

enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };

// Which states of XCR0 must be switched on for a feature to work.
enum class State : uint8_t { kNone, kAvx, kAvx512 };

struct Entry {
  HostFeature feature;
  const char* name;
  uint32_t leaf, subleaf;
  Register where;
  uint8_t bit;
  State state;
};

constexpr uint32_t kExtended = 0x80000001;

// Where CPUID reports a feature (Intel SDM volume 2, CPUID; AMD APM volume 3, appendix D).
constexpr Entry kTable[] = {
    {HostFeature::kAbm, "abm", kExtended, 0, kEcx, 5, State::kNone},
    {HostFeature::kAes, "aes", 1, 0, kEcx, 25, State::kNone},
    {HostFeature::kAvx, "avx", 1, 0, kEcx, 28, State::kAvx},
    {HostFeature::kAvx2, "avx2", 7, 0, kEbx, 5, State::kAvx},
    {HostFeature::kAvx512Bf16, "avx512_bf16", 7, 1, kEax, 5, State::kAvx512},
    {HostFeature::kAvx512Bitalg, "avx512_bitalg", 7, 0, kEcx, 12, State::kAvx512},
    {HostFeature::kAvx512Bw, "avx512bw", 7, 0, kEbx, 30, State::kAvx512},
    {HostFeature::kAvx512Cd, "avx512cd", 7, 0, kEbx, 28, State::kAvx512},
    {HostFeature::kAvx512Dq, "avx512dq", 7, 0, kEbx, 17, State::kAvx512},
    {HostFeature::kAvx512F, "avx512f", 7, 0, kEbx, 16, State::kAvx512},
    {HostFeature::kAvx512Fp16, "avx512_fp16", 7, 0, kEdx, 23, State::kAvx512},
    {HostFeature::kAvx512Ifma, "avx512ifma", 7, 0, kEbx, 21, State::kAvx512},
    {HostFeature::kAvx512Vbmi, "avx512vbmi", 7, 0, kEcx, 1, State::kAvx512},
    {HostFeature::kAvx512Vbmi2, "avx512_vbmi2", 7, 0, kEcx, 6, State::kAvx512},
    {HostFeature::kAvx512Vl, "avx512vl", 7, 0, kEbx, 31, State::kAvx512},
    {HostFeature::kAvx512Vnni, "avx512_vnni", 7, 0, kEcx, 11, State::kAvx512},
    {HostFeature::kAvx512Vpopcntdq, "avx512_vpopcntdq", 7, 0, kEcx, 14, State::kAvx512},
    {HostFeature::kAvxVnni, "avx_vnni", 7, 1, kEax, 4, State::kAvx},
    {HostFeature::kBmi1, "bmi1", 7, 0, kEbx, 3, State::kNone},
    {HostFeature::kBmi2, "bmi2", 7, 0, kEbx, 8, State::kNone},
    {HostFeature::kClflushopt, "clflushopt", 7, 0, kEbx, 23, State::kNone},
    {HostFeature::kClwb, "clwb", 7, 0, kEbx, 24, State::kNone},
    {HostFeature::kF16c, "f16c", 1, 0, kEcx, 29, State::kAvx},
    {HostFeature::kFma, "fma", 1, 0, kEcx, 12, State::kAvx},
    {HostFeature::kFsgsbase, "fsgsbase", 7, 0, kEbx, 0, State::kNone},
    {HostFeature::kGfni, "gfni", 7, 0, kEcx, 8, State::kNone},
    {HostFeature::kMovbe, "movbe", 1, 0, kEcx, 22, State::kNone},
    {HostFeature::kPclmulqdq, "pclmulqdq", 1, 0, kEcx, 1, State::kNone},
    {HostFeature::kSha, "sha_ni", 7, 0, kEbx, 29, State::kNone},
    {HostFeature::kSse3, "pni", 1, 0, kEcx, 0, State::kNone},
    {HostFeature::kSse41, "sse4_1", 1, 0, kEcx, 19, State::kNone},
    {HostFeature::kSse42, "sse4_2", 1, 0, kEcx, 20, State::kNone},
    {HostFeature::kSse4a, "sse4a", kExtended, 0, kEcx, 6, State::kNone},
    {HostFeature::kSsse3, "ssse3", 1, 0, kEcx, 9, State::kNone},
    {HostFeature::kVaes, "vaes", 7, 0, kEcx, 9, State::kAvx},
    {HostFeature::kVpclmulqdq, "vpclmulqdq", 7, 0, kEcx, 10, State::kAvx},
};

constexpr HostFeature kVendors[] = {HostFeature::kVendorAmd, HostFeature::kVendorIntel,
                                    HostFeature::kVendorOther};

std::string VendorId() {
  unsigned words[4] = {};
  __get_cpuid(0, &words[kEax], &words[kEbx], &words[kEcx], &words[kEdx]);
  std::string id(12, '\0');
  std::memcpy(&id[0], &words[kEbx], 4);
  std::memcpy(&id[4], &words[kEdx], 4);
  std::memcpy(&id[8], &words[kEcx], 4);
  return id;
}

std::string VendorName(HostFeature vendor) {
  switch (vendor) {
    case HostFeature::kVendorAmd:
      return "AuthenticAMD";
    case HostFeature::kVendorIntel:
      return "GenuineIntel";
    default:
      // Another one's name is known only on its own machines.
      return HostFeatures::Vendor() == vendor ? VendorId() : "(another vendor)";
  }
}

uint64_t EnabledStates() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | uint64_t{high} << 32;
}

HostFeatures Measure() {
  constexpr uint64_t kAvxStates = 0x6, kAvx512States = 0xe6;
  const uint64_t enabled = EnabledStates();
  HostFeatures found{HostFeatures::Vendor()};
  for (const Entry& entry : kTable) {
    unsigned words[4] = {};
    if (__get_cpuid_count(entry.leaf, entry.subleaf, &words[kEax], &words[kEbx], &words[kEcx],
                          &words[kEdx]) == 0 ||
        (words[entry.where] >> entry.bit & 1) == 0) {
      continue;
    }
    const uint64_t needs = entry.state == State::kNone  ? 0
                           : entry.state == State::kAvx ? kAvxStates
                                                        : kAvx512States;
    if ((enabled & needs) == needs) found.Add(entry.feature);
  }
  // The kernel has to allow these in user mode; the auxiliary vector says whether it does.
  constexpr unsigned long kHwcap2Fsgsbase = 2;
  if ((getauxval(AT_HWCAP2) & kHwcap2Fsgsbase) == 0) found.Remove({HostFeature::kFsgsbase});
  return found;
}

}  // namespace

HostFeature HostFeatures::Vendor() {
  static const HostFeature vendor = [] {
    const std::string id = VendorId();
    return id == "AuthenticAMD"   ? HostFeature::kVendorAmd
           : id == "GenuineIntel" ? HostFeature::kVendorIntel
                                  : HostFeature::kVendorOther;
  }();
  return vendor;
}

HostFeatures HostFeatures::OfThisHost() {
  static const HostFeatures features = Measure();
  return features;
}

HostFeatures HostFeatures::FromNames(absl::Span<const std::string> names) {
  HostFeatures features;
  for (const std::string& name : names) {
    for (const Entry& entry : kTable) {
      if (name == entry.name) features.Add(entry.feature);
    }
    for (HostFeature vendor : kVendors) {
      if (name == VendorName(vendor)) features.Add(vendor);
    }
  }
  return features;
}

std::vector<std::string> HostFeatures::Names() const {
  std::vector<std::string> names;
  for (const Entry& entry : kTable) {
    if (Has(entry.feature)) names.push_back(entry.name);
  }
  for (HostFeature vendor : kVendors) {
    if (Has(vendor)) names.push_back(VendorName(vendor));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::array<uint32_t, 4> CpuidBits(HostFeatures features, uint32_t leaf, uint32_t subleaf) {
  std::array<uint32_t, 4> bits = {};
  for (const Entry& entry : kTable) {
    if (entry.leaf == leaf && entry.subleaf == subleaf && features.Has(entry.feature)) {
      bits[entry.where] |= uint32_t{1} << entry.bit;
    }
  }
  return bits;
}

bool HostHasMasks() {
  static const bool has =
      HostFeatures::OfThisHost().Has({HostFeature::kAvx512F, HostFeature::kAvx512Bw,
                                      HostFeature::kAvx512Dq, HostFeature::kAvx512Vl});
  return has;
}

HostFeatures HostFeatures::FromBits(uint64_t bits) {
  HostFeatures features;
  features.bits_ = bits;
  return features;
}

std::vector<std::string> MissingFeatures(absl::Span<const std::string> required,
                                         HostFeatures host) {
  std::vector<std::string> missing;
  for (const std::string& name : required) {
    const HostFeatures feature = HostFeatures::FromNames({&name, 1});
    if (feature.empty() || !host.Has(feature)) missing.push_back(name);
  }
  return missing;
}

HostFeatures UsableFor(absl::Span<const std::string> required, HostFeatures host) {
  for (const std::string& name : required) {
    const bool flag = std::any_of(std::begin(kTable), std::end(kTable),
                                  [&](const Entry& entry) { return name == entry.name; });
    if (!flag && name != VendorName(HostFeatures::Vendor())) host.Remove({HostFeatures::Vendor()});
  }
  return host;
}

}  // namespace hindsight
