#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "cli/running/ring_option.h"
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

}  // namespace
}  // namespace hindsight
