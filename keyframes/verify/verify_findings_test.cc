#include "keyframes/verify/verify_findings.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(VerifyFindings, TheDifferenceAtTheLeastCountIsReported) {
  VerifyFindings findings;
  EXPECT_TRUE(findings.FirstDifference().ok());
  findings.AddDifference(20, absl::DataLossError("later"));
  findings.AddDifference(10, absl::DataLossError("earlier"));
  findings.AddDifference(30, absl::DataLossError("last"));
  EXPECT_EQ(findings.FirstDifference().message(), "earlier");
  EXPECT_EQ(findings.segments_failed(), 3u);
}

}  // namespace
}  // namespace hindsight
