#include "isa/host_features.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

// The words of the first "flags" line, and the vendor.
std::set<std::string> NamesInCpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0 && line.rfind("vendor_id", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) names.insert(word);
  }
  return names;
}

TEST(HostFeaturesTest, TheHostHasWhatItsKernelLists) {
  const std::set<std::string> listed = NamesInCpuinfo();
  for (const std::string& name : HostFeatures::OfThisHost().Names()) {
    EXPECT_TRUE(listed.contains(name)) << name;
  }
  for (const char* name : {"avx", "avx2", "avx512f", "avx512vl", "bmi2", "fma", "sha_ni", "gfni"}) {
    const std::string feature = name;
    EXPECT_EQ(HostFeatures::OfThisHost().Has(HostFeatures::FromNames({&feature, 1})),
              listed.contains(name))
        << name;
  }
}

TEST(HostFeaturesTest, NamesRoundTrip) {
  const HostFeatures features = {HostFeature::kAvx2, HostFeature::kSha, HostFeature::kVendorAmd};
  EXPECT_EQ(HostFeatures::FromNames(features.Names()), features);
  EXPECT_EQ(features.Names(), (std::vector<std::string>{"AuthenticAMD", "avx2", "sha_ni"}));
}

TEST(HostFeaturesTest, MissingNamesAreThoseTheHostLacksOrNobodyKnows) {
  const HostFeatures host = {HostFeature::kAvx};
  EXPECT_EQ(MissingFeatures({"avx", "avx2", "frobnicate"}, host),
            (std::vector<std::string>{"avx2", "frobnicate"}));
}

TEST(HostFeaturesTest, Sets) {
  HostFeatures features;
  EXPECT_TRUE(features.empty());
  features.Add(HostFeatures{HostFeature::kAvx, HostFeature::kFma});
  EXPECT_TRUE(features.Has(HostFeature::kFma));
  features.Remove({HostFeature::kFma});
  EXPECT_FALSE(features.Has(HostFeature::kFma));
  EXPECT_FALSE(features.Has(HostFeatures{HostFeature::kAvx, HostFeature::kFma}));
  EXPECT_TRUE(features.Has(HostFeatures{}));
}

TEST(HostFeaturesTest, AnotherVendorsTraceCannotUseThisOnesApproximations) {
  const HostFeatures host = {HostFeature::kAvx, HostFeatures::Vendor()};
  const std::string own = HostFeatures({HostFeatures::Vendor()}).Names()[0];
  EXPECT_EQ(UsableFor({"avx", own}, host), host);
  EXPECT_EQ(UsableFor({"avx"}, host), host);
  EXPECT_EQ(UsableFor({"avx", "CyrixInstead"}, host), HostFeatures{HostFeature::kAvx});
}

}  // namespace
}  // namespace hindsight
