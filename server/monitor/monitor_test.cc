#include "server/monitor/monitor.h"

#include <memory>

#include "gtest/gtest.h"
#include "keyframes/inspect/timeline_view.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

class MonitorTest : public ::testing::Test {
 protected:
  MonitorTest()
      : toy_({.iterations = 40, .full_keyframes = true}),
        timeline_(*Timeline::Open(toy_.trace())),
        view_(toy_.trace(), timeline_.get()),
        monitor_(toy_.trace(), timeline_.get(), &view_) {}

  // The output, or the message of the failure.
  std::string Run(const std::string& command) {
    const auto result = monitor_.Run(command, ToyRecording::kThread, nullptr);
    return result.ok() ? result->output : std::string(result.status().message());
  }
  absl::StatusCode Code(const std::string& command) {
    return monitor_.Run(command, ToyRecording::kThread, nullptr).status().code();
  }
  bool Says(const std::string& command, const std::string& part) {
    return Run(command).find(part) != std::string::npos;
  }

  ToyRecording toy_;
  std::unique_ptr<Timeline> timeline_;
  TimelineView view_;
  Monitor monitor_;
};

TEST_F(MonitorTest, AnEmptyCommandIsHelp) { EXPECT_EQ(Run(""), Run("help")); }

TEST_F(MonitorTest, UnknownCommandsAndArgumentsAreRefused) {
  for (const char* command :
       {"frobnicate", "help me", "when 99", "goto", "goto nowhere", "events gently",
        "unbookmark none", "bookmark a/b", "back", "forward", "snapshots 1"}) {
    EXPECT_EQ(Code(command), absl::StatusCode::kInvalidArgument) << command;
  }
  EXPECT_EQ(timeline_->moment(), 0);
}

TEST_F(MonitorTest, GotoMovesAndSelectsTheThreadOfThePlace) {
  const auto result = monitor_.Run("goto end", ToyRecording::kThread, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->thread, ToyRecording::kThread);
  EXPECT_EQ(timeline_->moment(), timeline_->end_moment());
  EXPECT_EQ(result->output, Run("when"));
}

TEST_F(MonitorTest, BackAndForwardGoThroughThePlacesVisited) {
  Run("goto 50%");
  const uint64_t middle = timeline_->moment();
  Run("goto end");
  Run("back");
  EXPECT_EQ(timeline_->moment(), middle);
  Run("back");
  EXPECT_EQ(timeline_->moment(), 0);
  Run("forward");
  EXPECT_EQ(timeline_->moment(), middle);
}

TEST_F(MonitorTest, BookmarksNamePositions) {
  Run("goto 50%");
  const uint64_t middle = timeline_->moment();
  EXPECT_TRUE(Says("bookmark here", "bookmark here is position "));
  EXPECT_TRUE(Says("bookmark start 0:0", "position 0:0"));
  EXPECT_TRUE(Says("bookmarks", "here: position "));
  Run("goto start");
  Run("goto bookmark here");
  EXPECT_EQ(timeline_->moment(), middle);
  EXPECT_EQ(Run("unbookmark here"), "");
  EXPECT_EQ(Code("goto bookmark here"), absl::StatusCode::kInvalidArgument);
}

TEST_F(MonitorTest, ABookmarkNamesAPositionThatThereIs) {
  EXPECT_EQ(Code("bookmark nowhere 99:1"), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Code("bookmark late 0:ffffffffff"), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Run("bookmarks"), "no bookmarks\n");
}

TEST_F(MonitorTest, ListsDescribeTheRecording) {
  EXPECT_TRUE(Says("threads", "* 7 "));
  EXPECT_TRUE(Says("snapshots", "1: position 0:0"));
  EXPECT_TRUE(Says("info", "program /toy\n"));
  EXPECT_TRUE(Says("maps", "00400000-00800000 rwxp"));
  EXPECT_TRUE(Says("events 2", "> "));
  EXPECT_TRUE(Says("statistics", "checkpoints"));
}

}  // namespace
}  // namespace hindsight
