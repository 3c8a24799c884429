#include "cli/snapshots/variables.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Parsed(absl::string_view text, uint64_t size_bytes) {
  const auto bytes = ParseBytes(text, size_bytes);
  EXPECT_TRUE(bytes.ok()) << text << ": " << bytes.status();
  return bytes.ok() ? *bytes : Bytes();
}
bool Refused(absl::string_view text, uint64_t size_bytes) {
  return absl::IsInvalidArgument(ParseBytes(text, size_bytes).status());
}

TEST(VariablesTest, NumbersAreOfTheVariablesSize) {
  EXPECT_EQ(Parsed("5", 4), (Bytes{5, 0, 0, 0}));
  EXPECT_EQ(Parsed("0x1234", 2), (Bytes{0x34, 0x12}));
  EXPECT_EQ(Parsed("-2", 2), (Bytes{0xfe, 0xff}));
  EXPECT_EQ(Parsed("18446744073709551615", 8), Bytes(8, 0xff));
}

TEST(VariablesTest, RealNumbers) {
  EXPECT_EQ(Parsed("1.0", 4), (Bytes{0, 0, 0x80, 0x3f}));
  EXPECT_EQ(Parsed("-2.0", 8), (Bytes{0, 0, 0, 0, 0, 0, 0, 0xc0}));
  EXPECT_TRUE(Refused("1.0", 2));
}

TEST(VariablesTest, BytesOfAnySize) {
  EXPECT_EQ(Parsed("hex:00ffA0", 3), (Bytes{0, 0xff, 0xa0}));
  EXPECT_TRUE(Refused("hex:00ff", 3));
  EXPECT_TRUE(Refused("hex:00fg", 2));
}

TEST(VariablesTest, WhatDoesNotFitIsRefused) {
  EXPECT_TRUE(Refused("256", 1));
  EXPECT_TRUE(Refused("-129", 1));
  EXPECT_TRUE(Refused("1", 16));
  EXPECT_TRUE(Refused("", 4));
  EXPECT_TRUE(Refused("five", 4));
}

}  // namespace
}  // namespace hindsight
