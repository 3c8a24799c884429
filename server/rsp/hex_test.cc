#include "server/rsp/hex.h"

#include <gtest/gtest.h>

#include <string>

namespace hindsight::rsp {
namespace {

TEST(HexTest, EncodesAndDecodesEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  EXPECT_EQ(HexDecode(HexEncode(bytes)), bytes);
  EXPECT_EQ(HexEncode("\x01\xab"), "01ab");
  EXPECT_EQ(HexDecode("01AB"), "\x01\xab");
}

TEST(HexTest, DecodeRejectsAnOddNumberOfDigits) { EXPECT_EQ(HexDecode("abc"), std::nullopt); }

TEST(HexTest, DecodeRejectsWhatIsNoDigit) { EXPECT_EQ(HexDecode("0g"), std::nullopt); }

TEST(HexTest, NumbersHaveUpToSixteenSignificantDigits) {
  EXPECT_EQ(ParseHex("0"), 0u);
  EXPECT_EQ(ParseHex("ffffffffffffffff"), ~uint64_t{0});
  EXPECT_EQ(ParseHex("00000000000000000001"), 1u);
  EXPECT_EQ(ParseHex("10000000000000000"), std::nullopt);
  EXPECT_EQ(ParseHex(""), std::nullopt);
  EXPECT_EQ(ParseHex("1x"), std::nullopt);
  EXPECT_EQ(ParseHex("-1"), std::nullopt);
}

TEST(EscapeTest, EveryByteSurvives) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  std::string escaped;
  EXPECT_EQ(AppendEscaped(bytes, 1000, &escaped), 256u);
  EXPECT_EQ(escaped.find_first_of("#$*"), std::string::npos);
  EXPECT_EQ(Unescape(escaped), bytes);
}

TEST(EscapeTest, StopsBeforeAnEscapeThatDoesNotFit) {
  std::string escaped = "m";
  EXPECT_EQ(AppendEscaped("ab#", 3, &escaped), 2u);
  EXPECT_EQ(escaped, "mab");
}

TEST(EscapeTest, UnescapeRejectsACutOffEscape) { EXPECT_EQ(Unescape("ab}"), std::nullopt); }

}  // namespace
}  // namespace hindsight::rsp
