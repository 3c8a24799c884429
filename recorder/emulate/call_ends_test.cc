#include "recorder/emulate/call_ends.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

TEST(CallEndsTest, TakesThoseThatAreDueInTheirOrder) {
  CallEnds ends;
  EXPECT_FALSE(ends.next_ns().has_value());
  ends.Add(/*thread=*/1, 300);
  ends.Add(/*thread=*/2, 100);
  ends.Add(/*thread=*/3, 100);
  EXPECT_EQ(ends.next_ns(), 100);
  EXPECT_FALSE(ends.TakeDue(99).has_value());
  EXPECT_EQ(ends.TakeDue(100), 2);
  EXPECT_EQ(ends.TakeDue(100), 3);
  EXPECT_FALSE(ends.TakeDue(100).has_value());
  EXPECT_EQ(ends.next_ns(), 300);
}

// A call that is disturbed again has the end that it had.
TEST(CallEndsTest, TheSameEndIsThereOnce) {
  CallEnds ends;
  ends.Add(/*thread=*/1, 100);
  ends.Add(/*thread=*/1, 100);
  EXPECT_EQ(ends.TakeDue(100), 1);
  EXPECT_FALSE(ends.TakeDue(100).has_value());
}

}  // namespace
}  // namespace hindsight
