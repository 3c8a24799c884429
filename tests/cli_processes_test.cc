// The commands on recordings of several processes, and recordings that end before the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A shell that runs hello, steps and steps once more.
class ChooseProcessTest : public ::testing::Test {
 protected:
  ChooseProcessTest()
      : recorded_(
            {"/bin/sh", "-c",
             Program("hello") + "; " + Program("steps") + "; " + Program("steps") + "; exit 3"}) {
    EXPECT_EQ(recorded_.run().Ending(), "exit 3") << recorded_.run().err;
  }

  ChildResult On(const std::string& command, const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {command, recorded_.trace()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return RunHindsight(all);
  }

  const Recorded recorded_;
};

TEST_F(ChooseProcessTest, VerifyTakesAllOrOne) {
  const ChildResult all = On("verify", {});
  EXPECT_EQ(all.Ending(), "exit 0") << all.err;
  EXPECT_THAT(all.out, HasSubstr("4 of 4 processes exact"));
  const ChildResult one = On("verify", {"-p", "hello"});
  EXPECT_EQ(one.Ending(), "exit 0") << one.err;
  EXPECT_THAT(one.out, Not(HasSubstr("processes")));
}

TEST_F(ChooseProcessTest, TheFirstOneIsTakenWithAWord) {
  const ChildResult gdb = On("replay", {"--", "-batch", "-ex", "info inferiors"});
  EXPECT_THAT(gdb.err, HasSubstr(", one of 4; -p PID|NAME chooses another")) << gdb.out;
}

TEST(CrashedProcessTest, ItIsTakenUnlessAnotherIsNamed) {
  const Recorded recorded(
      {"/bin/sh", "-c", Program("hello") + "; " + Program("die_by_segv") + "; exit 3"});
  const auto replay = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"replay", recorded.trace()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    for (const char* word : {"--", "-batch", "-ex", "continue"}) arguments.push_back(word);
    return RunHindsight(arguments);
  };
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"-p", "crashed"}}) {
    const ChildResult gdb = replay(flags);
    EXPECT_THAT(gdb.out, HasSubstr("SIGSEGV")) << gdb.err;
    if (!flags.empty()) continue;
    EXPECT_THAT(gdb.err, HasSubstr("die_by_segv), which crashed, one of 3; -p PID|NAME chooses"));
    EXPECT_THAT(gdb.err, HasSubstr("'hindsight info " + recorded.trace() + "' lists them"));
  }
  EXPECT_THAT(replay({"-p", "hello"}).out, Not(HasSubstr("SIGSEGV")));
}

TEST_F(ChooseProcessTest, NoneCrashed) {
  const ChildResult gdb = On("replay", {"-p", "crashed", "--", "-batch"});
  EXPECT_THAT(gdb.err, HasSubstr("no process of the recording crashed"));
  EXPECT_NE(gdb.Ending(), "exit 0");
}

TEST_F(ChooseProcessTest, ByProgram) {
  // It begins as the shell that was forked.
  const ChildResult gdb =
      On("replay", {"-p", "hello", "--", "-batch", "-ex", "set breakpoint pending on", "-ex",
                    "break main", "-ex", "continue", "-ex", "info source"});
  EXPECT_THAT(gdb.out, HasSubstr("hello.c")) << gdb.err;
  EXPECT_THAT(gdb.err, Not(HasSubstr("chooses another")));
  EXPECT_THAT(On("info", {"-p", "hello"}).out, HasSubstr("programs/hello"));
}

TEST_F(ChooseProcessTest, AmbiguousAndUnknownNamesAreToldWithTheChoices) {
  const ChildResult two = On("dump", {"-p", "steps"});
  EXPECT_EQ(two.Ending(), "exit 1");
  EXPECT_THAT(two.err, HasSubstr("(steps), "));
  const ChildResult none = On("dump", {"-p", "stepz"});
  EXPECT_EQ(none.Ending(), "exit 1");
  EXPECT_THAT(none.err, HasSubstr("(hello)"));
}

TEST_F(ChooseProcessTest, ADamagedChildIsNotExact) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  std::filesystem::copy(recorded_.trace(), trace, std::filesystem::copy_options::recursive);
  const auto child = *std::filesystem::directory_iterator(trace + "/processes");
  std::filesystem::resize_file(child.path() / "manifest", 40);
  const ChildResult verify = RunHindsight({"verify", trace});
  EXPECT_EQ(verify.Ending(), "exit 1") << verify.out;
  EXPECT_THAT(verify.err, HasSubstr(child.path().filename().string()));
}

// The program does not notice that its recording ended.
class EarlyEndTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EarlyEndTest, TheProgramGoesOnAndTheTraceIsExact) {
  const std::string script = "for i in 1 2 3 4 5 6 7 8 9; do " + Program("hello") +
                             " > /dev/null; done; sleep 0.5; echo done; exit 3";
  const Recorded recorded({"/bin/sh", "-c", script}, {}, {GetParam()});
  EXPECT_EQ(recorded.run().Ending(), "exit 3") << recorded.run().err;
  EXPECT_EQ(recorded.run().out, "done\n");
  EXPECT_EQ(InfoField(recorded.trace(), "state"), "complete");
  EXPECT_NE(InfoField(recorded.trace(), "endReason"), "");
  ExpectExact(recorded.trace());
}

INSTANTIATE_TEST_SUITE_P(By, EarlyEndTest,
                         ::testing::Values("--duration=300ms", "--max-size=2500K"));

}  // namespace
}  // namespace hindsight::e2e
