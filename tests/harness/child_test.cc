#include "tests/harness/child.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace hindsight::e2e {
namespace {

TEST(ChildTest, OutputsAndStatusAreReported) {
  const ChildResult result =
      RunProcess({"sh", "-c", "cat; echo problem >&2; exit 3"}, {.input = "some text"});
  EXPECT_EQ(result.Ending(), "exit 3");
  EXPECT_EQ(result.out, "some text");
  EXPECT_EQ(result.err, "problem\n");
}

TEST(ChildTest, DeathBySignalIsReported) {
  EXPECT_EQ(RunProcess({"sh", "-c", "kill -SEGV $$"}).Ending(), "signal 11");
}

TEST(ChildTest, MissingProgramIsReported) {
  EXPECT_EQ(RunProcess({"/nonexistent/program"}).Ending(), "exit 127");
}

TEST(ChildTest, MegabytesPassBothWays) {
  const std::string text(5'000'000, 'x');
  EXPECT_EQ(RunProcess({"cat"}, {.input = text}).out.size(), text.size());
}

TEST(ChildTest, HangIsKilledAtTheDeadline) {
  EXPECT_EQ(RunProcess({"sleep", "1000"}, {.timeout = absl::Milliseconds(50)}).Ending(), "timeout");
}

TEST(ChildTest, EndDoesNotWaitForGrandchildren) {
  // The sleeping grandchild holds the pipes open.
  const ChildResult result = RunProcess({"sh", "-c", "sleep 1000 & echo done"});
  EXPECT_EQ(result.Ending(), "exit 0");
  EXPECT_EQ(result.out, "done\n");
}

TEST(ChildTest, ConversationWaitsForAnswers) {
  Child child = Child::Start({"cat"}, {.keep_input_open = true});
  size_t position = 0;
  child.Write("one\n");
  EXPECT_TRUE(child.WaitForOut("one", &position));
  child.Write("two\n");
  EXPECT_TRUE(child.WaitForOut("two", &position));
  EXPECT_EQ(child.Finish().Ending(), "exit 0");
  EXPECT_FALSE(child.WaitForOut("three", &position));
}

TEST(ChildTest, SignalsReachTheChild) {
  Child child = Child::Start({"sleep", "1000"});
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Finish().Ending(), "signal 15");
}

}  // namespace
}  // namespace hindsight::e2e
