// Snapshots inside recordings: when they are taken, that the trace stays exact, and what gdb shows
// at them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPoints[] = "tests/snap/points";

// What `hindsight info` says of the snapshots, a line each, from the trigger to the attributes.
std::vector<std::string> Snapshots(const std::string& trace) {
  const ChildResult info = RunHindsight({"info", trace});
  EXPECT_EQ(info.Ending(), "exit 0") << info.err;
  std::vector<std::string> snapshots;
  for (const absl::string_view line : absl::StrSplit(info.out, '\n')) {
    const size_t end = line.find("; skew ");
    if (end == absl::string_view::npos) continue;
    const std::vector<std::string> parts =
        absl::StrSplit(line.substr(0, end), absl::MaxSplits(", ", 2));
    EXPECT_THAT(parts[0], HasSubstr(absl::StrCat("  ", snapshots.size() + 1, ": ")));
    snapshots.push_back(parts[2]);
  }
  return snapshots;
}

TEST(RecordedSnapshotsTest, NobodyListens) {
  for (const char* what : {"steps", "threads", "fork", "exec", "signals"}) {
    const Recorded recorded({kPoints, what});
    EXPECT_THAT(recorded.run().Ending(), testing::AnyOf("exit 0", HasSubstr("signal 15")));
    ExpectExact(recorded.trace());
    EXPECT_THAT(Snapshots(recorded.trace()), IsEmpty());
  }
}

TEST(RecordedSnapshotsTest, AtPoints) {
  const Recorded recorded({kPoints, "steps"}, {}, {"--snapshots"});
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  EXPECT_THAT(Snapshots(recorded.trace()),
              ElementsAre("call, step", "call, step", "call, step", "call, step", "call, step",
                          "point 1/7/11, phase=on", "point 2/7/12, phase=on",
                          "point 3/7/13, phase=end", "point 9/8/1"));
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
python
def at():
  say("number", value("number"))
  names = functions()
  say("place", names[names.index("main") - 2])
end
hindsight goto snapshot 1
python at()
hindsight goto snapshot 5
python at()
hindsight goto snapshot previous
python at()
hindsight goto snapshot next
hindsight goto snapshot next
python at()
python say("list", gdb.execute("monitor snapshots", to_string=True).replace("\n", "|"))
python say("events", gdb.execute("monitor events 2 snapshot", to_string=True).replace("\n", "|"))
hindsight goto start
hindsight goto snapshot next
python at()
)");
  EXPECT_THAT(gdb.Answers("number"), ElementsAre("1", "5", "4", "6", "1")) << gdb.text;
  EXPECT_THAT(gdb.Answer("list"), HasSubstr("|  5: ")) << gdb.text;
  EXPECT_THAT(gdb.Answer("list"), HasSubstr("|* 6: ")) << gdb.text;
  EXPECT_THAT(gdb.Answer("list"), HasSubstr("point 3/7/13, phase=end; position ")) << gdb.text;
  EXPECT_THAT(gdb.Answer("events"), HasSubstr("point 1/7/11, phase=on")) << gdb.text;
}

TEST(RecordedSnapshotsTest, CoresAndDifferencesByNumber) {
  const Recorded recorded({kPoints, "steps"}, {}, {"--snapshots"});
  const ChildResult diff = RunHindsight({"diff", recorded.trace(), "2", "4"});
  EXPECT_EQ(diff.Ending(), "exit 0") << diff.err;
  EXPECT_THAT(diff.out, HasSubstr(" number (")) << diff.out;
  TempDir directory;
  const std::string core = directory.File("core");
  const ChildResult made = RunHindsight({"core", recorded.trace(), "3", "-o", core});
  EXPECT_EQ(made.Ending(), "exit 0") << made.err;
  const ChildResult gdb =
      RunProcess({"gdb", "-nx", "-batch", "-ex", "print number", kPoints, core});
  EXPECT_THAT(gdb.out, HasSubstr("$1 = 3")) << gdb.err;
}

TEST(RecordedSnapshotsTest, WhichPointsPass) {
  const auto taken = [](const std::vector<std::string>& flags) {
    const Recorded recorded({kPoints, "steps"}, {}, flags);
    EXPECT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    ExpectExact(recorded.trace());
    return Snapshots(recorded.trace());
  };
  EXPECT_THAT(taken({"--trigger=point", "--level=2", "--class=7"}),
              ElementsAre("point 2/7/12, phase=on", "point 3/7/13, phase=end"));
  EXPECT_THAT(taken({"--trigger=point", "--attr=phase=end"}),
              ElementsAre("point 3/7/13, phase=end"));
  EXPECT_THAT(taken({"--trigger=call", "--skip=1", "--stride=2", "--max=1"}),
              ElementsAre("call, step"));
  EXPECT_THAT(taken({"--snapshots", "--interval=1h"}), ElementsAre("call, step"));
}

// What the keyframes say of each thread is what a replay gets to.
TEST(RecordedSnapshotsTest, AllThreadsStandWhereTheyWereStopped) {
  const Recorded recorded({kPoints, "threads"}, {}, {"--snapshots"});
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  ASSERT_EQ(Snapshots(recorded.trace()).size(), 8u);
  TempDir directory;
  const std::string states = directory.File("states");
  std::filesystem::copy(recorded.trace(), states, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(states + "/threads");
  constexpr char kState[] = R"(
python
for one in range(2, 10):
  gdb.execute("hindsight goto snapshot %d" % (one - $0))
  seen = []
  for thread in gdb.selected_inferior().threads():
    thread.switch()
    seen.append((thread.ptid[1], value("$$pc"), value("$$sp"), value("$$rax"), value("$$rbx"),
                 value("$$eflags")))
  say("threads", sorted(seen))
end
)";
  // Without segments all full keyframes are snapshots, the first one too.
  const std::vector<std::string> replayed =
      RunGdb(recorded.trace(), absl::Substitute(kState, 1)).Answers("threads");
  const std::vector<std::string> stopped =
      RunGdb(states, absl::Substitute(kState, 0)).Answers("threads");
  ASSERT_EQ(replayed.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(replayed[i], stopped[i]) << i;
}

TEST(RecordedSnapshotsTest, ProcessesAndPrograms) {
  const Recorded forked({kPoints, "fork"}, {}, {"--snapshots"});
  ExpectExact(forked.trace());
  EXPECT_THAT(Snapshots(forked.trace()), ElementsAre("call, parent"));
  const std::vector<std::string> children = ChildProcesses(forked.trace());
  ASSERT_EQ(children.size(), 1u);
  const std::string child = absl::StrCat(forked.trace(), "/processes/", children[0]);
  EXPECT_THAT(Snapshots(child), ElementsAre("call, child"));
  const GdbResult gdb =
      RunGdb(child, "hindsight goto snapshot 1\npython say('number', value('number'))");
  EXPECT_EQ(gdb.Answer("number"), "77") << gdb.text;

  const Recorded executed({kPoints, "exec"}, {}, {"--trigger=call"});
  ExpectExact(executed.trace());
  EXPECT_THAT(Snapshots(executed.trace()), ElementsAre("call, before", "call, step", "call, step",
                                                       "call, step", "call, step", "call, step"));
}

TEST(RecordedSnapshotsTest, BeforeSignals) {
  const Recorded recorded({kPoints, "signals"}, {}, {"--on-signal=USR1,TERM"});
  EXPECT_THAT(recorded.run().Ending(), HasSubstr("signal 15"));
  ExpectExact(recorded.trace());
  ASSERT_EQ(Snapshots(recorded.trace()).size(), 2u);
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
hindsight goto snapshot 1
python say("state", (value("number"), value("signals")))
hindsight goto snapshot 2
python say("state", (value("number"), value("signals")))
)");
  EXPECT_EQ(gdb.Answers("state").size(), 2u) << gdb.text;
  EXPECT_THAT(gdb.Answers("state")[0], HasSubstr("1")) << gdb.text;

  const Recorded fault({kPoints, "fault"}, {}, {"--on-signal=SEGV"});
  EXPECT_THAT(fault.run().Ending(), HasSubstr("signal 11"));
  ExpectExact(fault.trace());
  ASSERT_EQ(Snapshots(fault.trace()).size(), 1u);
  const GdbResult there = RunGdb(fault.trace(), R"(
hindsight goto snapshot 1
python say("pc", gdb.execute("x/i $pc", to_string=True))
)");
  EXPECT_THAT(there.Answer("pc"), HasSubstr("0x8")) << there.text;
}

TEST(RecordedSnapshotsTest, ByTheTimer) {
  const Recorded recorded({kPoints, "busy"}, {}, {"--every=50ms"});
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  const std::vector<std::string> snapshots = Snapshots(recorded.trace());
  EXPECT_GE(snapshots.size(), 3u);
  for (const std::string& snapshot : snapshots) EXPECT_EQ(snapshot, "timer");
}

TEST(RecordedSnapshotsTest, AtAFunction) {
  const Recorded recorded({kPoints, "busy"}, {}, {"--at=work"});
  if (Engine() == TestedEngine::kTranslate) {
    EXPECT_THAT(recorded.run().err, HasSubstr("--at"));
    return;
  }
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  EXPECT_THAT(Snapshots(recorded.trace()),
              ElementsAre("function, work", "function, work", "function, work", "function, work"));
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
hindsight goto snapshot 3
python say("number", value("number"))
python say("pc", gdb.execute("info symbol $pc", to_string=True))
)");
  EXPECT_EQ(gdb.Answer("number"), "2000") << gdb.text;
  EXPECT_THAT(gdb.Answer("pc"), HasSubstr("work in section")) << gdb.text;
}

TEST(RecordedSnapshotsTest, WrongSettingsAreRefused) {
  TempDir directory;
  for (const char* flag : {"--level=high", "--every=soon", "--at=0x", "--on-signal=NONE",
                           "--trigger=all", "--class=9-1"}) {
    const ChildResult run = RunHindsight({"record", flag, "-o", directory.File("t"), "/bin/true"});
    EXPECT_NE(run.Ending(), "exit 0") << flag;
    EXPECT_THAT(run.err, Not(IsEmpty())) << flag;
    EXPECT_FALSE(std::filesystem::exists(directory.File("t"))) << flag;
  }
}

}  // namespace
}  // namespace hindsight::e2e
