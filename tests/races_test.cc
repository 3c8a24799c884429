// Schedules: turns that end anywhere, --chaos and --until-failure, on programs with one
// concurrency bug each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Race(const std::string& name) { return Program("races/" + name); }

// A run of `program` that failed, found within 200.
class Caught {
 public:
  explicit Caught(const std::string& program) : trace_(directory_.File("trace")) {
    ChildOptions options;
    options.timeout = absl::Seconds(400);
    run_ = RunHindsight({"record", "-o", trace_, "--chaos=1", "--until-failure=1000",
                         "--timeout=60", "--", Race(program)},
                        options);
  }
  const std::string& trace() const { return trace_; }
  const ChildResult& run() const { return run_; }

 private:
  TempDir directory_;
  std::string trace_;
  ChildResult run_;
};

class RacesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RacesTest, ChaosCatchesItAndTheTraceIsExact) {
  const Caught caught(GetParam());
  EXPECT_NE(caught.run().Ending(), "exit 0") << caught.run().err;
  EXPECT_THAT(caught.run().err, HasSubstr("hindsight replay")) << caught.run().err;
  EXPECT_EQ(InfoField(caught.trace(), "schedule"), "chaos");
  EXPECT_THAT(caught.run().err, HasSubstr("seed " + InfoField(caught.trace(), "seed")));
  ExpectExact(caught.trace());
}

// Those that take few runs; bench/races has all ten.
INSTANTIATE_TEST_SUITE_P(Some, RacesTest,
                         ::testing::Values("lock_order", "two_processes", "unlocked_check"),
                         [](const auto& info) { return std::string(info.param); });

// From the wrong sum back to the store that undid another thread's: the value it stored was
// computed from one that another thread replaced meanwhile.
TEST(RaceInGdbTest, ReverseContinueFindsTheStoreThatLostAnUpdate) {
  const Caught caught("lost_update");
  const GdbResult gdb =
      RunGdb(caught.trace(), absl::Substitute(R"(
python
run("continue")
gdb.execute("watch total")
last, undone = None, 0
while True:
    stop = run("reverse-continue")
    if not stop.startswith("breakpoint"): break
    assert "add" in functions(), functions()
    assert line() == $0, line()
    # The present value is the one before the store.
    before, read = int(value("total")), int(value("t"))
    if before != read: undone += 1
say("undone", undone > 0)
end
)",
                                              LineOf("races/lost_update.c", "the racing store")));
  EXPECT_EQ(gdb.Answer("undone"), "True") << gdb.text;
}

// The last store to the counter is that of the seat that was sold though none was left.
TEST(RaceInGdbTest, ReverseContinueFindsWhoSoldASeatThatWasSold) {
  const Caught caught("unlocked_check");
  const GdbResult gdb =
      RunGdb(caught.trace(), absl::Substitute(R"(
python
run("continue")
say("sold at last", value("sold"))
gdb.execute("watch sold")
say("found", run("reverse-continue"))
say("by", "sell" in functions() and line() == $0)
say("sold before", value("sold"))
end
)",
                                              LineOf("races/unlocked_check.c", "sold++;")));
  EXPECT_EQ(gdb.Answer("sold at last"), "6") << gdb.text;
  EXPECT_EQ(gdb.Answer("found"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("by"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("sold before"), "5") << gdb.text;
}

// Natively nine of ten runs lose updates; turns that end with blocks lost none.
TEST(TurnsTest, UpdatesAreLostWithoutChaosToo) {
  int lost = 0;
  for (int i = 0; i < 5; ++i) {
    const Recorded recorded({Program("data_race")});
    ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    if (recorded.run().out != "3000000\n") ++lost;
    ExpectExact(recorded.trace());
  }
  EXPECT_GT(lost, 2);
}

int Slices(const std::string& quantum) {
  const Recorded recorded({Program("data_race")}, {}, {"--quantum=" + quantum});
  EXPECT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  return std::stoi("0" + InfoField(recorded.trace(), "slices"));
}

// Some twenty-five million instructions: turns of N at most are so many at least.
TEST(TurnsTest, AQuantumIsTheMostOfATurn) {
  const int wide = Slices("1000000"), narrow = Slices("10000");
  EXPECT_GT(narrow, 1500);
  EXPECT_LT(wide, narrow / 3);
}

TEST(TurnsTest, OneInstructionIsAQuantumToo) {
  const Recorded recorded({Race("torn_read")}, {}, {"--quantum=3"});
  EXPECT_THAT(recorded.run().Ending(), HasSubstr("exit")) << recorded.run().err;
  ExpectExact(recorded.trace());
}

TEST(ChaosTest, RecordsProgramsUnchanged) {
  for (const char* program : {"producers_consumers", "thread_cancel", "signal_storm", "pipeline",
                              "lock_free_queue", "robust_mutex", "fork_threads"}) {
    ExpectAlwaysRecordsUnchanged({Program(program)}, {}, {"--chaos"});
  }
}

TEST(ChaosTest, TheSeedGivenIsTheOneInTheTrace) {
  const Recorded recorded({Program("threads")}, {}, {"--chaos=4711"});
  EXPECT_EQ(InfoField(recorded.trace(), "seed"), "4711");
  EXPECT_EQ(InfoField(recorded.trace(), "schedule"), "chaos");
  const Recorded plain({Program("threads")});
  EXPECT_EQ(InfoField(plain.trace(), "schedule"), "turns");
}

TEST(UntilFailureTest, KeepsNothingIfNoRunFails) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  const ChildResult run =
      RunHindsight({"record", "-o", trace, "--until-failure=3", "--", "/bin/true"});
  EXPECT_EQ(run.Ending(), "exit 0") << run.err;
  EXPECT_THAT(run.err, HasSubstr("none of 3 runs failed"));
  EXPECT_FALSE(std::filesystem::exists(trace));
}

TEST(UntilFailureTest, EndsAsTheRunThatFailed) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  const ChildResult run =
      RunHindsight({"record", "-o", trace, "--until-failure", "--", "/bin/sh", "-c", "exit 7"});
  EXPECT_EQ(run.Ending(), "exit 7") << run.err;
  ExpectExact(trace);
}

TEST(UntilFailureTest, AHangIsAFailureAndItsTraceIsExact) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  for (const char* hang : {"while :; do :; done", "sleep 1000"}) {
    const ChildResult run = RunHindsight(
        {"record", "-o", trace, "--until-failure=5", "--timeout=1", "--", "/bin/sh", "-c", hang});
    EXPECT_EQ(run.Ending(), "exit 124") << run.err;
    EXPECT_THAT(InfoField(trace, "end"), HasSubstr("was killed"));
    ExpectExact(trace);
    std::filesystem::remove_all(trace);
  }
}

TEST(UntilFailureTest, AProgramThatIsNotThereEndsTheSearch) {
  const TempDir directory;
  const ChildResult run = RunHindsight(
      {"record", "-o", directory.File("trace"), "--until-failure", "--", "/no/such/program"});
  EXPECT_EQ(run.Ending(), "exit 127") << run.err;
}

}  // namespace
}  // namespace hindsight::e2e
