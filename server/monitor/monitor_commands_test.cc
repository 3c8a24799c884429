#include "server/monitor/monitor_commands.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace hindsight {
namespace {

class MonitorCommandsTest : public ::testing::Test {
 protected:
  MonitorCommandsTest() {
    commands_.Add("where", "", "the place", this, &MonitorCommandsTest::Where);
    commands_.Add("go", "PLACE", "move there", [this](const MonitorQuestion& question) {
      arguments_ = std::string(question.arguments);
      if (question.selects != nullptr) *question.selects = question.selected + 1;
      return absl::StatusOr<std::string>("gone\n");
    });
  }

  absl::StatusOr<std::string> Where(const MonitorQuestion& question) {
    return std::to_string(question.selected);
  }
  absl::StatusCode Code(const std::string& line) {
    return commands_.Execute(line, {}).status().code();
  }

  MonitorCommands commands_;
  std::string arguments_ = "none";
};

TEST_F(MonitorCommandsTest, ACommandGetsItsArgumentsWithoutTheSpaceAround) {
  int32_t thread = 0;
  EXPECT_EQ(*commands_.Execute(" go\t  up and  down ", {.selected = 4, .selects = &thread}),
            "gone\n");
  EXPECT_EQ(arguments_, "up and  down");
  EXPECT_EQ(thread, 5);
  EXPECT_EQ(*commands_.Execute("where", {.selected = 7}), "7");
}

TEST_F(MonitorCommandsTest, NothingIsHelpAndHelpListsAll) {
  const std::string help = *commands_.Execute("help", {});
  EXPECT_EQ(help,
            "monitor help\n    this list\nmonitor where\n    the place\n"
            "monitor go PLACE\n    move there\n");
  EXPECT_EQ(*commands_.Execute("", {}), help);
  EXPECT_EQ(*commands_.Execute(" \t ", {}), help);
}

TEST_F(MonitorCommandsTest, WhatIsNotThereOrTakesNothingIsRefused) {
  for (const char* line : {"w", "wheres", "help me", "where now", "GO up", "go-up"}) {
    EXPECT_EQ(Code(line), absl::StatusCode::kInvalidArgument) << line;
  }
  EXPECT_EQ(arguments_, "none");
}

}  // namespace
}  // namespace hindsight
