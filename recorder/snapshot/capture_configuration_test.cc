#include "recorder/snapshot/capture_configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace hindsight {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const CaptureSetting& setting : CaptureSettings()) names.emplace_back(setting.name);
  return names;
}

// The configuration that a file of this text makes of `before`, or the error's text without the
// file's directory.
absl::Status Read(const std::string& text, CaptureConfiguration* configuration) {
  const std::string path = ::testing::TempDir() + "/snap.toml";
  std::ofstream(path) << text;
  return ReadCaptureFile(path, AllNames(), configuration);
}

std::string ErrorOf(const std::string& text) {
  CaptureConfiguration configuration;
  const std::string message(Read(text, &configuration).message());
  const size_t name = message.rfind("/snap.toml:");
  return name == std::string::npos ? message : message.substr(name + 1);
}

CaptureConfiguration With(const std::string& name, std::vector<std::string> values) {
  CaptureConfiguration configuration;
  const absl::Status status = configuration.Apply(name, values);
  EXPECT_TRUE(status.ok()) << status;
  return configuration;
}

bool IsRefused(const std::string& name, std::vector<std::string> values) {
  CaptureConfiguration configuration;
  return configuration.Apply(name, values).code() == absl::StatusCode::kInvalidArgument;
}

TEST(CaptureConfigurationTest, EverySettingHasAHelpAndTakesItsName) {
  EXPECT_EQ(CaptureSettings().size(), 14u);
  for (const CaptureSetting& setting : CaptureSettings()) {
    EXPECT_FALSE(setting.help.empty());
    CaptureConfiguration configuration;
    EXPECT_FALSE(absl::StrContains(configuration.Apply(setting.name, {"?"}).message(),
                                   "there is no setting"));
  }
  EXPECT_TRUE(IsRefused("levle", {"1"}));
}

TEST(CaptureConfigurationTest, Filters) {
  EXPECT_EQ(With("level", {"-3"}).points.minimum_level, -3);
  EXPECT_THAT(With("class", {"1,4-7", "0x10"}).points.classes,
              ElementsAre(FieldsAre(1, 1), FieldsAre(4, 7), FieldsAre(16, 16)));
  EXPECT_THAT(With("id", {"4294967295"}).points.ids,
              ElementsAre(FieldsAre(0xffffffffu, 0xffffffffu)));
  EXPECT_THAT(With("attr", {"phase=a=b,c", "rank"}).points.attributes,
              ElementsAre(FieldsAre("phase", "a=b,c"), FieldsAre("rank", "")));
  EXPECT_THAT(With("on-exception", {"std::map<int, int>"}).points.exceptions,
              ElementsAre("std::map<int, int>"));
  const PointFilter points = With("trigger", {"call,assertion"}).points;
  EXPECT_TRUE(points.calls && points.assertions);
  EXPECT_FALSE(points.points || points.conditions);
}

TEST(CaptureConfigurationTest, WhenAndHowOften) {
  EXPECT_EQ(With("every", {"100ms"}).every, absl::Milliseconds(100));
  EXPECT_EQ(With("every", {"2"}).every, absl::Seconds(2));
  EXPECT_EQ(With("interval", {"1.5s"}).points.interval, absl::Milliseconds(1500));
  EXPECT_EQ(With("skip", {"7"}).points.skip, 7u);
  EXPECT_EQ(With("stride", {"7"}).points.stride, 7u);
  EXPECT_EQ(With("max", {"10"}).max_snapshots, 10u);
  EXPECT_THAT(With("on-signal", {"SEGV,SIGUSR1", "34"}).signals, ElementsAre(SIGSEGV, SIGUSR1, 34));
  EXPECT_THAT(With("at", {"f(int, int)", "main"}).functions, ElementsAre("f(int, int)", "main"));
}

TEST(CaptureConfigurationTest, WhatIsSaved) {
  EXPECT_TRUE(CaptureConfiguration().save.all);
  const SavedMemory saved = With("save", {"stacks,range:7f00-8000", "variable:table"}).save;
  EXPECT_FALSE(saved.all);
  EXPECT_TRUE(saved.stacks);
  EXPECT_THAT(saved.ranges, ElementsAre(FieldsAre(0x7f00, 0x8000)));
  EXPECT_THAT(saved.variables, ElementsAre("table"));
}

TEST(CaptureConfigurationTest, WhatMakesNoSenseIsRefused) {
  EXPECT_TRUE(IsRefused("level", {"high"}));
  EXPECT_TRUE(IsRefused("level", {"99999999999"}));
  EXPECT_TRUE(IsRefused("level", {"1", "2"}));
  EXPECT_TRUE(IsRefused("class", {"7-4"}));
  EXPECT_TRUE(IsRefused("class", {"1,"}));
  EXPECT_TRUE(IsRefused("class", {"-1"}));
  EXPECT_TRUE(IsRefused("attr", {"=x"}));
  EXPECT_TRUE(IsRefused("trigger", {"calls"}));
  EXPECT_TRUE(IsRefused("stride", {"0"}));
  EXPECT_TRUE(IsRefused("every", {"-1s"}));
  EXPECT_TRUE(IsRefused("every", {"inf"}));
  EXPECT_TRUE(IsRefused("every", {"nan"}));
  EXPECT_TRUE(IsRefused("on-signal", {"SEGFAULT"}));
  EXPECT_TRUE(IsRefused("on-signal", {"KILL"}));
  EXPECT_TRUE(IsRefused("on-signal", {"65"}));
  EXPECT_TRUE(IsRefused("at", {""}));
  EXPECT_TRUE(IsRefused("save", {"everything"}));
  EXPECT_TRUE(IsRefused("save", {"range:8000-7f00"}));
}

TEST(CaptureConfigurationTest, AFile) {
  CaptureConfiguration configuration;
  const absl::Status status = Read(
      "# what happens in the solver\n"
      "\n"
      "level = 2  # and above\n"
      "class = [1, \"4-7\",\n"
      "         9,  # the last\n"
      "]\n"
      "attr = ['phase=\"x\"', \"rank=\\\"3\\\"\"]\n"
      "every=\"100ms\"\r\n"
      "on-signal = []",
      &configuration);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(configuration.points.minimum_level, 2);
  EXPECT_THAT(configuration.points.classes,
              ElementsAre(FieldsAre(1, 1), FieldsAre(4, 7), FieldsAre(9, 9)));
  EXPECT_THAT(configuration.points.attributes,
              ElementsAre(FieldsAre("phase", "\"x\""), FieldsAre("rank", "\"3\"")));
  EXPECT_EQ(configuration.every, absl::Milliseconds(100));
  EXPECT_THAT(configuration.signals, IsEmpty());
}

TEST(CaptureConfigurationTest, TheCommandLineReplacesWhatTheFileSays) {
  CaptureConfiguration configuration;
  ASSERT_TRUE(Read("class = [1, 2]\nlevel = 3\n", &configuration).ok());
  ASSERT_TRUE(configuration.Apply("class", {"5"}).ok());
  EXPECT_THAT(configuration.points.classes, ElementsAre(FieldsAre(5, 5)));
  EXPECT_EQ(configuration.points.minimum_level, 3);
}

TEST(CaptureConfigurationTest, ErrorsNameTheLine) {
  EXPECT_EQ(ErrorOf("level = 1\n\nlevle = 2\n"), "snap.toml:3: there is no setting \"levle\"");
  EXPECT_EQ(ErrorOf("level = \"x\"\n"), "snap.toml:1: level: \"x\" is not a number that fits");
  EXPECT_EQ(ErrorOf("level = 1\nlevel = 2\n"), "snap.toml:2: level is set twice");
  EXPECT_EQ(ErrorOf("\nlevel 1\n"), "snap.toml:2: \"=\" is missing after level");
  EXPECT_EQ(ErrorOf("[snap]\n"), "snap.toml:1: there are no sections");
  EXPECT_EQ(ErrorOf("every = 100 ms\n"), "snap.toml:1: something follows the value");
  EXPECT_EQ(ErrorOf("save = stacks\n"), "snap.toml:1: a text stands in quotes: \"stacks\"");
  EXPECT_EQ(ErrorOf("save = \"stacks\n"), "snap.toml:1: a text does not end on its line");
  EXPECT_EQ(ErrorOf("class = [1\n2]\n"), "snap.toml:2: a list is [VALUE, VALUE]");
  EXPECT_EQ(ErrorOf("class = [1,\n"), "snap.toml:2: a value is missing");
  EXPECT_EQ(ErrorOf("at = \"\\x\"\n"), "snap.toml:1: after \\ stands one of \" \\ n t");
  EXPECT_EQ(ErrorOf("= 3\n"), "snap.toml:1: a line is NAME = VALUE");
}

TEST(CaptureConfigurationTest, AFileWithAnErrorChangesNothing) {
  CaptureConfiguration configuration;
  EXPECT_FALSE(Read("level = 4\nlevle = 2\n", &configuration).ok());
  EXPECT_EQ(configuration.points.minimum_level, CaptureConfiguration().points.minimum_level);
}

TEST(CaptureConfigurationTest, AFileThatIsNotThere) {
  CaptureConfiguration configuration;
  EXPECT_EQ(ReadCaptureFile("/nowhere/snap.toml", AllNames(), &configuration).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hindsight
