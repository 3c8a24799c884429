// Walking from snapshot to snapshot with the real gdb. The sequence is the full keyframes of a
// recording, without what lies between them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Snapshots of a program in which `counter` counts, and the recording that they are from.
class Sequence {
 public:
  Sequence() {
    const ChildResult run =
        Record(recording(), {Program("loop"), "1"}, {}, {"--full-keyframe-interval=1000000"});
    EXPECT_EQ(run.Ending(), "exit 0") << run.err;
    std::filesystem::copy(recording(), trace(), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(trace() + "/threads");
  }
  std::string recording() const { return directory_.File("recording"); }
  std::string trace() const { return directory_.File("snapshots"); }

 private:
  TempDir directory_;
};

const Sequence& Snapshots() {
  static const Sequence* sequence = new Sequence;
  return *sequence;
}

constexpr char kNumber[] = R"(
python
def number():
  return int(gdb.execute("monitor when", to_string=True).split(":")[0].split()[1])
end
)";

TEST(SnapshotViewTest, ContinueAndGotoMoveBetweenThem) {
  const GdbResult gdb = RunGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
python say("at", number())
python say("run", run("continue"))
python say("at", number())
continue
python say("at", number())
reverse-continue
python say("at", number())
hindsight goto snapshot next
python say("at", number())
hindsight goto snapshot previous
python say("at", number())
hindsight goto snapshot 1
python say("at", number())
reverse-continue
python say("at", number())
hindsight goto end
python last = number()
continue
python say("stays", number() == last and last > 3)
python say("list", gdb.execute("monitor snapshots", to_string=True).count("\n") == last)
)"));
  EXPECT_EQ(gdb.Answers("at"), (std::vector<std::string>{"1", "2", "3", "2", "3", "2", "1", "1"}))
      << gdb.text;
  EXPECT_EQ(gdb.Answer("stays"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("list"), "True") << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("No more reverse-execution history"));
}

TEST(SnapshotViewTest, StateIsThatOfTheRecordingAtTheSameKeyframe) {
  constexpr char kState[] = R"(
hindsight goto $0
python say("registers", sorted(item for item in all_registers().items() if item[0] != "orig_rax"))
python say("functions", functions())
python say("stack", gdb.execute("x/64xb $$sp", to_string=True).replace("\n", ";"))
python say("libraries", gdb.execute("info sharedlibrary", to_string=True).replace("\n", ";"))
)";
  for (const char* number : {"snapshot 12", "snapshot 14"}) {
    const GdbResult snapshot = RunGdb(Snapshots().trace(), absl::Substitute(kState, number));
    const GdbResult recording = RunGdb(Snapshots().recording(), absl::Substitute(kState, number));
    for (const char* tag : {"registers", "functions", "stack", "libraries"}) {
      EXPECT_EQ(snapshot.Answer(tag), recording.Answer(tag)) << number << tag << snapshot.text;
    }
    EXPECT_THAT(snapshot.Answer("functions"), HasSubstr("main"));
  }
}

TEST(SnapshotViewTest, AWatchpointSaysBetweenWhichTwo) {
  const GdbResult gdb = RunGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
hindsight goto end
python say("value", value("last_round"))
watch last_round
reverse-continue
python say("back", number())
python say("before", value("last_round"))
continue
python say("at", number())
python say("after", value("last_round"))
)"));
  EXPECT_EQ(gdb.Answer("value"), gdb.Answer("after")) << gdb.text;
  EXPECT_NE(gdb.Answer("before"), gdb.Answer("after")) << gdb.text;
  const int back = std::stoi(gdb.Answer("back"));
  EXPECT_EQ(gdb.Answer("at"), absl::StrCat(back + 1)) << gdb.text;
  EXPECT_THAT(gdb.text,
              HasSubstr(absl::StrCat("changed between snapshots ", back, " and ", back + 1)));
}

TEST(SnapshotViewTest, StepsAndWritesAreRefused) {
  const GdbResult gdb = TryGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
continue
python before = gdb.execute("x/8xb $sp", to_string=True)
stepi
next
reverse-stepi
python
for command in ("set var *(char*)$sp = 77", "set var $rax = 12345"):
  try:
    gdb.execute(command)
    say("refused", "no")
  except gdb.error:
    say("refused", "yes")
end
python say("same", before == gdb.execute("x/8xb $sp", to_string=True))
python say("at", number())
)"));
  EXPECT_THAT(gdb.text, HasSubstr("snapshots cannot be stepped"));
  EXPECT_EQ(gdb.Answers("refused"), (std::vector<std::string>{"yes", "yes"})) << gdb.text;
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("at"), "2") << gdb.text;
}

TEST(SnapshotViewTest, ACoreOfOneHasItsStack) {
  const TempDir directory;
  const std::string file = directory.File("core");
  ASSERT_EQ(RunHindsight({"core", Snapshots().trace(), "12", "-o", file}).Ending(), "exit 0");
  std::vector<std::string> argv = GdbArguments();
  argv.insert(argv.begin(), FindProgram("gdb"));
  argv.insert(argv.end(), {Program("loop"), file, "-ex", "python say('functions', functions())"});
  GdbResult core;
  core.child = RunProcess(argv);
  const GdbResult gdb = RunGdb(
      Snapshots().trace(), "hindsight goto snapshot 12\npython say('functions', functions())\n");
  EXPECT_EQ(core.Answer("functions"), gdb.Answer("functions")) << core.child.err;
  EXPECT_THAT(core.Answer("functions"), HasSubstr("main"));
}

TEST(SnapshotViewTest, DiffNamesTheVariablesThatChanged) {
  // `last_round` and `table` are what the program writes.
  const ChildResult diff = RunHindsight({"diff", Snapshots().trace(), "12", "14"});
  EXPECT_EQ(diff.Ending(), "exit 0") << diff.err;
  EXPECT_THAT(diff.out, HasSubstr(" last_round "));
  EXPECT_THAT(diff.out, HasSubstr(" table "));
  const ChildResult same = RunHindsight({"diff", Snapshots().trace(), "12", "12"});
  EXPECT_EQ(same.Ending(), "exit 0") << same.err;
  EXPECT_THAT(same.out, HasSubstr("no differences"));
  EXPECT_THAT(same.out, Not(HasSubstr("last_round")));
  const ChildResult none = RunHindsight({"diff", Snapshots().trace(), "1", "12345"});
  EXPECT_EQ(none.Ending(), "exit 1");
  EXPECT_THAT(none.err, HasSubstr("no snapshot 12345"));
}

TEST(SnapshotViewTest, InfoListsThem) {
  const ChildResult text = RunHindsight({"info", Snapshots().trace()});
  EXPECT_THAT(text.out, HasSubstr("snapshots:"));
  EXPECT_THAT(text.out, HasSubstr("\n  3: "));
  EXPECT_THAT(RunHindsight({"info", "--json", Snapshots().trace()}).out,
              HasSubstr("\"number\": 3"));
  EXPECT_THAT(RunHindsight({"info", Snapshots().recording()}).out, Not(HasSubstr("snapshots:")));
}

}  // namespace
}  // namespace hindsight::e2e
