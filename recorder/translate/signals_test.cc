// Signals and faults, natively and translated.

#include <gtest/gtest.h>

#include <string>

#include "recorder/translate/translated_fixture.h"

namespace hindsight {
namespace {

const std::string kGames = "recorder/translate/testdata/signal_games";

TEST(SignalsTest, HandlersSeeWhatTheySeeNatively) {
  for (const char* flags : {"", "--block=1", "--flush=3", "--block=2 --flush=5"}) {
    ExpectSameTranslated(kGames, flags);
  }
}

// The status that the shell sees is that of the signal.
TEST(SignalsTest, FatalOnesEndTheProgramAsNatively) {
  for (const char* how : {"segv", "abort", "ud2", "int3", "jump", "term", "blocked", "overflow"}) {
    const std::string program = "exec " + kGames + " " + how;
    const int native = RunCommand(program).status;
    EXPECT_GT(native, 128) << how;
    EXPECT_EQ(RunCommand("exec " + Translated() + kGames + " " + how).status, native) << how;
  }
}

TEST(SignalsTest, ShellsWaitForTheirChildren) {
  ExpectSameTranslated("bash -c \"sleep 0.1 & wait \\$!; echo \\$?; kill -9 \\$\\$\"");
  ExpectSameTranslated("timeout 0.2 sleep 10");
  ExpectSameTranslated("perl -e \"\\$SIG{ALRM} = sub { die qq(alarm) }; alarm 1; 1 while 1\"");
  ExpectSameTranslated(
      "/usr/bin/python3 -c \"import signal; signal.signal(10, lambda *a: print(a[0])); "
      "signal.raise_signal(10)\"");
}

}  // namespace
}  // namespace hindsight
