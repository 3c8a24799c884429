#include "keyframes/state/position.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(PositionTest, PrintsUpperCaseHexWithoutLeadingZeros) {
  EXPECT_EQ(ToString({0x1a, 0x3f}), "1A:3F");
  EXPECT_EQ(ToString({0, 0}), "0:0");
}

TEST(PositionTest, ReadsWhatItPrints) {
  for (Position position : {Position{0, 0}, Position{1, 0xffff}, Position{~0ull, ~0ull}}) {
    auto parsed = ParsePosition(ToString(position));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, position);
  }
}

TEST(PositionTest, AcceptsLowerCaseLeadingZerosAndPrefix) {
  EXPECT_EQ(*ParsePosition("0x1a:003f"), (Position{0x1a, 0x3f}));
}

TEST(PositionTest, RejectsEverythingElse) {
  for (const char* text :
       {"", ":", "1", "1:", ":1", "1:2:3", "1 :2", "-1:2", "g:1", "0x:1", "11112222333344445:0"}) {
    EXPECT_EQ(ParsePosition(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(PositionTest, OrdersBySequenceThenSteps) {
  EXPECT_LT((Position{1, 9}), (Position{2, 0}));
  EXPECT_LT((Position{1, 1}), (Position{1, 2}));
}

}  // namespace
}  // namespace hindsight
