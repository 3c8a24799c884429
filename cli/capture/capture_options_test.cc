#include "cli/capture/capture_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace hindsight {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::HasSubstr;

absl::StatusOr<CaptureConfiguration> Parsed(std::vector<std::string> arguments) {
  CaptureOptions capture;
  Options options("snap", "");
  capture.AddTo(&options, {"level", "class", "every"});
  const auto parsed = options.Parse(arguments, true);
  if (!parsed.ok()) return parsed.status();
  return capture.Read();
}

std::string File(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/capture.toml";
  std::ofstream(path) << text;
  return path;
}

TEST(CaptureOptionsTest, AListIsGivenInPartsAndOthersLast) {
  const auto configuration = Parsed({"--class=1", "--class=3-4,9", "--level=7", "--level=2"});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_THAT(configuration->points.classes,
              ElementsAre(FieldsAre(1, 1), FieldsAre(3, 4), FieldsAre(9, 9)));
  EXPECT_EQ(configuration->points.minimum_level, 2);
}

TEST(CaptureOptionsTest, TheCommandLineComesAfterTheFile) {
  const std::string file = File("level = 5\nclass = [8]\n");
  const auto configuration = Parsed({"--class=1", "--config=" + file});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_THAT(configuration->points.classes, ElementsAre(FieldsAre(1, 1)));
  EXPECT_EQ(configuration->points.minimum_level, 5);
}

TEST(CaptureOptionsTest, ErrorsNameTheOptionOrTheLine) {
  EXPECT_EQ(Parsed({"--level=x"}).status().message(), "--level: \"x\" is not a number that fits");
  EXPECT_THAT(std::string(Parsed({"--config=" + File("\nlevel = \"x\"\n")}).status().message()),
              HasSubstr("capture.toml:2: level: "));
}

TEST(CaptureOptionsTest, WhatTheCommandDoesNotHaveIsRefusedInAFile) {
  EXPECT_THAT(std::string(Parsed({"--config=" + File("at = \"main\"\n")}).status().message()),
              HasSubstr("capture.toml:1: there is no setting \"at\""));
}

}  // namespace
}  // namespace hindsight
