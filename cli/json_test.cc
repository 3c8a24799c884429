#include "cli/json.h"

#include <cmath>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(JsonTest, MembersKeepTheirOrder) {
  Json json;
  json["b"] = 1;
  json["a"] = Json::array({-1, true});
  json["c"] = Json::object();
  EXPECT_EQ(JsonLine(json), "{\"b\":1,\"a\":[-1,true],\"c\":{}}\n");
}

TEST(JsonTest, DocumentsAreIndented) {
  Json json;
  json["a"] = Json::array({1});
  json["b"] = Json::array();
  EXPECT_EQ(JsonDocument(json), "{\n  \"a\": [\n    1\n  ],\n  \"b\": []\n}\n");
}

TEST(JsonTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(JsonLine(JsonText("a\"\\\n\x01\x7f")), "\"a\\\"\\\\\\n\\u0001\\u007f\"\n");
}

TEST(JsonTest, StrayBytesBecomeCharacters) {
  EXPECT_EQ(JsonLine(JsonText("\xc3\xa4\xff\xc3\x9b")), "\"\\u00e4\\u00ff\\u00db\"\n");
  EXPECT_EQ(JsonLine(JsonText("\x9b")), "\"\\u009b\"\n");
}

TEST(JsonTest, Numbers) {
  EXPECT_EQ(JsonLine(JsonHex(255)), "\"0xff\"\n");
  EXPECT_EQ(JsonLine(JsonNumber(0.1234567)), "0.123457\n");
  EXPECT_EQ(JsonLine(JsonNumber(3)), "3\n");
  EXPECT_EQ(JsonLine(JsonNumber(NAN)), "null\n");
  EXPECT_EQ(JsonLine(~uint64_t{0}), "18446744073709551615\n");
}

}  // namespace
}  // namespace hindsight
