#include "server/rsp/scanner.h"

#include <gtest/gtest.h>

namespace hindsight::rsp {
namespace {

TEST(ScannerTest, ReadsFromLeftToRight) {
  Scanner scanner("1f,20:rest;end");
  EXPECT_EQ(scanner.Hex(), 0x1fu);
  EXPECT_FALSE(scanner.Consume(':'));
  EXPECT_TRUE(scanner.Consume(','));
  EXPECT_EQ(scanner.Hex(), 0x20u);
  EXPECT_TRUE(scanner.Consume(absl::string_view(":re")));
  EXPECT_EQ(scanner.Until(';'), "st");
  EXPECT_EQ(scanner.Until(';'), "end");
  EXPECT_TRUE(scanner.empty());
}

TEST(ScannerTest, SkipsNothingThatIsNotANumber) {
  Scanner scanner("xyz");
  EXPECT_EQ(scanner.Hex(), std::nullopt);
  EXPECT_EQ(scanner.rest(), "xyz");
}

TEST(ScannerTest, SkipsNoNumberOfMoreThan64Bits) {
  Scanner scanner("12345678123456781,");
  EXPECT_EQ(scanner.Hex(), std::nullopt);
  EXPECT_EQ(scanner.rest(), "12345678123456781,");
}

TEST(ScannerTest, TakesOnlyWhatIsThere) {
  Scanner scanner("abc");
  EXPECT_EQ(scanner.Take(~uint64_t{0}), std::nullopt);
  EXPECT_EQ(scanner.Take(2), "ab");
  EXPECT_EQ(scanner.rest(), "c");
}

TEST(ScannerTest, TheEndIsNoCharacter) {
  Scanner scanner("");
  EXPECT_FALSE(scanner.Consume('\0'));
  EXPECT_EQ(scanner.Hex(), std::nullopt);
  EXPECT_EQ(scanner.Until(';'), "");
}

}  // namespace
}  // namespace hindsight::rsp
