#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "cli/running/ring_option.h"
#include "cli/running/run_choice.h"
#include "cli/running/save_option.h"

namespace hindsight {
namespace {

RingLimits Ring(const std::string& text) {
  RingValue value;
  std::string error;
  EXPECT_TRUE(AbslParseFlag(text, &value, &error)) << text;
  return value.limits;
}

TEST(RingOptionTest, ReadsSizesTimesAndNumbers) {
  EXPECT_EQ(Ring("500M").bytes, 500u << 20);
  EXPECT_EQ(Ring("1.5GiB").bytes, 3u << 29);
  EXPECT_EQ(Ring("20480k").bytes, 20u << 20);
  EXPECT_EQ(Ring("10min").ns, 600'000'000'000u);
  EXPECT_EQ(Ring("250ms").ns, 250'000'000u);
  EXPECT_EQ(Ring("2h").ns, 7'200'000'000'000u);
  EXPECT_EQ(Ring("20").keyframes, 20u);
  EXPECT_EQ(Ring("20 snapshots").keyframes, 20u);
  EXPECT_EQ(Ring("20").bytes + Ring("20").ns, 0u);
}

TEST(RingOptionTest, RefusesWhatIsAmbiguousOrTooSmall) {
  for (const char* text :
       {"", "0", "10m", "-1", "M", "15M", "1K", "10ms", "2.5", "5x", "nan", "1e3s"}) {
    RingValue value;
    std::string error;
    EXPECT_FALSE(AbslParseFlag(text, &value, &error)) << text;
    EXPECT_FALSE(value.limits.any()) << text;
  }
}

SaveValue Save(const std::string& text) {
  SaveValue value;
  std::string error;
  EXPECT_TRUE(AbslParseFlag(text, &value, &error)) << text;
  return value;
}

int Exited(int status) { return status << 8; }

TEST(SaveOptionTest, KeepsWhatItSays) {
  EXPECT_TRUE(SaveValue().Keeps(0));
  EXPECT_TRUE(Save("crash").Keeps(SIGSEGV));
  EXPECT_TRUE(Save("crash").Keeps(SIGABRT | 0x80));  // with a core dump
  EXPECT_FALSE(Save("crash").Keeps(SIGTERM));
  EXPECT_FALSE(Save("crash").Keeps(Exited(1)));
  EXPECT_TRUE(Save("signal").Keeps(SIGTERM));
  EXPECT_FALSE(Save("signal").Keeps(Exited(SIGTERM)));
  EXPECT_TRUE(Save("signal=TERM,SIGINT").Keeps(SIGINT));
  EXPECT_FALSE(Save("signal=TERM,2").Keeps(SIGSEGV));
  EXPECT_TRUE(Save("exit-status").Keeps(Exited(3)));
  EXPECT_FALSE(Save("exit-status").Keeps(Exited(0)));
  EXPECT_FALSE(Save("exit-status").Keeps(SIGSEGV));
  EXPECT_TRUE(Save("exit-status=0,7").Keeps(Exited(0)));
  EXPECT_FALSE(Save("exit-status=7").Keeps(Exited(0)));
}

TEST(SaveOptionTest, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "crash=1", "signal=", "signal=NONE", "signal=99", "exit-status=256",
                           "exit-status=", "exit-status=x", "never"}) {
    SaveValue value;
    std::string error;
    EXPECT_FALSE(AbslParseFlag(text, &value, &error)) << text;
  }
}

RunChoice Running(std::vector<std::string> arguments) {
  RunChoice choice;
  choice.arguments = std::move(arguments);
  return choice;
}

TEST(RunChoiceTest, IsAProgramOrAProcess) {
  EXPECT_EQ(CheckRun(Running({"true"})), "");
  EXPECT_NE(CheckRun(Running({})), "");
  RunChoice choice = Running({});
  choice.attach_pid = 7;
  EXPECT_EQ(CheckRun(choice), "");
  choice.arguments = {"true"};
  EXPECT_NE(CheckRun(choice), "");
  choice = Running({});
  choice.attach_pid = -7;
  EXPECT_NE(CheckRun(choice), "");
}

TEST(RunChoiceTest, APoolOfARingNeedsARing) {
  RunChoice choice = Running({"true"});
  choice.ring_pool.given = true;
  EXPECT_NE(CheckRun(choice), "");
  choice.ring.limits = Ring("500M");
  EXPECT_EQ(CheckRun(choice), "");
}

TEST(RunChoiceTest, TheTraceIsNamedAfterTheProgram) {
  RunChoice choice = Running({"/nowhere/prog", "argument"});
  EXPECT_TRUE(ChooseDirectory(&choice));
  EXPECT_EQ(choice.directory, "prog-0.hindsight");
  choice = Running({});
  choice.attach_pid = getpid();
  EXPECT_TRUE(ChooseDirectory(&choice));
  EXPECT_EQ(choice.directory, "running_options_test-0.hindsight");
}

TEST(RunChoiceTest, ADirectoryIsNotMadeForTheTrace) {
  RunChoice choice = Running({"prog"});
  choice.directory = "nowhere/trace";
  EXPECT_FALSE(ChooseDirectory(&choice));
  choice.directory = "trace";
  EXPECT_TRUE(ChooseDirectory(&choice));
  EXPECT_EQ(choice.directory, "trace");
}

}  // namespace
}  // namespace hindsight
