#include "cli/json.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(JsonWriterTest, NestsAndSeparates) {
  JsonWriter json(/*compact=*/true);
  json.BeginObject().Key("a").Uint(1).Key("b").BeginArray().Int(-1).Bool(true).EndArray();
  json.Key("c").BeginObject().EndObject().Key("d").Hex(255).EndObject();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[-1,true],"c":{},"d":"0xff"})");
}

TEST(JsonWriterTest, IndentsByDefault) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Uint(1).EndArray().EndObject();
  EXPECT_EQ(json.text(), "{\n  \"a\": [\n    1\n  ]\n}");
}

TEST(JsonWriterTest, EscapesWhatJsonForbids) {
  JsonWriter json;
  json.String("a\"\\\n\x01");
  EXPECT_EQ(json.text(), R"("a\"\\\u000a\u0001")");
}

TEST(JsonWriterTest, KeepsUtf8AndEscapesStrayBytes) {
  JsonWriter json;
  json.String("\xc3\xa4\xff\xc3");
  EXPECT_EQ(json.text(), "\"\xc3\xa4\\u00ff\\u00c3\"");
}

}  // namespace
}  // namespace hindsight
