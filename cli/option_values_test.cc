#include "cli/option_values.h"

#include "absl/flags/marshalling.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

// What `text` is parsed to and printed as again; "?" if it is refused with a reason.
template <typename T>
std::string Reread(const std::string& text) {
  T value;
  std::string error;
  if (absl::ParseFlag(text, &value, &error)) return absl::UnparseFlag(value);
  return error.empty() ? "" : "?";
}

TEST(SizeValueTest, UnitsArePowersOf1024) {
  EXPECT_EQ(Reread<SizeValue>("1000"), "1000");
  EXPECT_EQ(Reread<SizeValue>("64K"), "65536");
  EXPECT_EQ(Reread<SizeValue>("1.5m"), "1572864");
  EXPECT_EQ(Reread<SizeValue>("2G"), "2147483648");
  EXPECT_EQ(Reread<SizeValue>("1T"), "1099511627776");
  EXPECT_EQ(Reread<SizeValue>("1KiB"), "1024");
  EXPECT_EQ(Reread<SizeValue>("1MB"), "1048576");
  EXPECT_EQ(Reread<SizeValue>("7B"), "7");
  EXPECT_EQ(Reread<SizeValue>("0"), "");
}

TEST(SizeValueTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "M", "-1", "1X", "1KK", "1 K", "1.2.3", "999999999T", "0x10"}) {
    EXPECT_EQ(Reread<SizeValue>(text), "?") << text;
  }
}

TEST(SecondsValueTest, UnitsAreToldByTheirLetters) {
  EXPECT_EQ(Reread<SecondsValue>("10"), "10s");
  EXPECT_EQ(Reread<SecondsValue>("2.5s"), "2.5s");
  EXPECT_EQ(Reread<SecondsValue>("500ms"), "0.5s");
  EXPECT_EQ(Reread<SecondsValue>("3m"), "180s");
  EXPECT_EQ(Reread<SecondsValue>("1h"), "3600s");
}

TEST(SecondsValueTest, RefusesWhatIsNoTime) {
  for (const char* text : {"", "s", "-1s", "1x", "1 s", "ms"}) {
    EXPECT_EQ(Reread<SecondsValue>(text), "?") << text;
  }
}

TEST(ChildrenValueTest, OneOfThree) {
  EXPECT_EQ(Reread<ChildrenValue>("follow"), "follow");
  EXPECT_EQ(Reread<ChildrenValue>("none"), "none");
  EXPECT_EQ(Reread<ChildrenValue>("only=cc1"), "only=cc1");
  EXPECT_EQ(Reread<ChildrenValue>("only=a=b"), "only=a=b");
  for (const char* text : {"", "only", "only=", "all", "followed"}) {
    EXPECT_EQ(Reread<ChildrenValue>(text), "?") << text;
  }
}

TEST(SeedValueTest, ANumberOrRandom) {
  EXPECT_EQ(Reread<SeedValue>("random"), "random");
  for (const char* text : {"0", "17", "18446744073709551615"}) {
    EXPECT_EQ(Reread<SeedValue>(text), text);
  }
  for (const char* text : {"", "-1", "18446744073709551616", "1.5", "x"}) {
    EXPECT_EQ(Reread<SeedValue>(text), "?") << text;
  }
}

TEST(RunsValueTest, ANumberOrForever) {
  EXPECT_EQ(Reread<RunsValue>("forever"), "forever");
  EXPECT_EQ(Reread<RunsValue>("200"), "200");
  for (const char* text : {"", "0", "-1", "many"}) EXPECT_EQ(Reread<RunsValue>(text), "?") << text;
}

TEST(EnvironmentValueTest, AllOrNone) {
  EXPECT_EQ(Reread<EnvironmentValue>("all"), "all");
  EXPECT_EQ(Reread<EnvironmentValue>("none"), "none");
  for (const char* text : {"", "some", "ALL"}) EXPECT_EQ(Reread<EnvironmentValue>(text), "?");
}

}  // namespace
}  // namespace hindsight
