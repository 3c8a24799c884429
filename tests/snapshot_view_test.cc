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

TEST(SnapshotViewTest, AStepOfAnInstructionIsASnapshotAndLinesAreRefused) {
  const GdbResult gdb = TryGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
continue
next
python say("at", number())
stepi
python say("at", number())
stepi 3
python say("at", number())
reverse-stepi
python say("at", number())
)"));
  EXPECT_THAT(gdb.text, HasSubstr("snapshots have no lines to step through"));
  EXPECT_EQ(gdb.Answers("at"), (std::vector<std::string>{"2", "3", "6", "5"})) << gdb.text;
}

TEST(SnapshotViewTest, ABreakpointAtThePcHoldsNobodyUp) {
  const GdbResult gdb = RunGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
hindsight goto snapshot 12
break *$pc
continue
python say("at", number())
tbreak *$pc
continue
python say("at", number())
reverse-continue
python say("at", number())
watch last_round
break *$pc
python before = value("last_round")
continue
python say("at", number())
python say("changed", before != value("last_round"))
)"));
  EXPECT_EQ(gdb.Answers("at"), (std::vector<std::string>{"13", "14", "13", "14"})) << gdb.text;
  EXPECT_EQ(gdb.Answer("changed"), "True") << gdb.text;
}

TEST(SnapshotViewTest, WatchpointsOfEveryKindFindTheSameChanges) {
  // The changes, as a walk from snapshot to snapshot sees them; with a condition those that meet
  // it.
  const GdbResult gdb = RunGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
python
def values():
  gdb.execute("hindsight goto start", to_string=True)
  last, found = 0, {}
  while last != number():
    last = number()
    found[last] = value("last_round")
    gdb.execute("continue", to_string=True)
  return found
def stops():
  gdb.execute("hindsight goto start", to_string=True)
  found = []
  while True:
    before = number()
    gdb.execute("continue", to_string=True)
    if number() == before or number() == len(known):
      return found
    found.append(number())
known = values()
changes = [n for n in known if 1 < n < len(known) and known[n] != known[n - 1]]
say("some", len(changes) > 3)
gdb.execute("hindsight goto start")
for how in ("watch last_round", "watch -l last_round", "awatch last_round"):
  gdb.execute(how)
  say("same", stops() == changes)
  gdb.execute("delete")
gdb.execute("watch last_round if last_round / 65536 % 2 == 1")
say("same", stops() == [n for n in changes if int(known[n]) // 65536 % 2 == 1])
gdb.execute("watch table[0]")
gdb.execute("watch -l table[1]")
say("more", set(stops()) >= set(n for n in changes if int(known[n]) // 65536 % 2 == 1))
gdb.execute("delete")
gdb.execute("set can-use-hw-watchpoints 0")
gdb.execute("hindsight goto start")
gdb.execute("watch last_round")
say("same", stops() == changes)
end
)"));
  EXPECT_EQ(gdb.Answer("some"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answers("same"), std::vector<std::string>(5, "True")) << gdb.text;
  EXPECT_EQ(gdb.Answer("more"), "True") << gdb.text;
}

TEST(SnapshotViewTest, WritesGoToACopyAndAreListed) {
  const TempDir directory;
  const std::string file = directory.File("x.edits");
  const GdbResult gdb = TryGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
hindsight goto snapshot 12
python was = value("last_round")
python registers = all_registers()
set var last_round = 4711
set var $rbx = 0x1122334455667788
set var $xmm5.v2_int64[1] = 0x42
python say("written", value("last_round"))
python say("stays", value("$rbx") + " " + value("$xmm5.v2_int64[1]"))
python address = int(gdb.parse_and_eval("(long)&last_round"))
python say("edits", gdb.execute("monitor edits", to_string=True).replace("\n", ";"))
python say("address", "%x" % address)
hindsight save edits )",
                                                                 file, R"(
hindsight save edits )",
                                                                 file, R"(
continue
hindsight goto snapshot 12
python say("back", (value("last_round") == was, all_registers() == registers))
python say("none", gdb.execute("monitor edits", to_string=True))
set var last_round = 1
hindsight discard
python say("back", (value("last_round") == was, all_registers() == registers))
set var last_round = 1
python say("goto", gdb.execute("hindsight goto snapshot 11", to_string=True).count("is gone"))
python say("goto", gdb.execute("hindsight goto snapshot 10", to_string=True).count("is gone"))
hindsight goto snapshot 12
python say("back", (value("last_round") == was, all_registers() == registers))
)"));
  EXPECT_EQ(gdb.Answer("written"), "4711") << gdb.text;
  EXPECT_EQ(gdb.Answers("goto"), (std::vector<std::string>{"1", "0"})) << gdb.text;
  EXPECT_EQ(gdb.Answer("stays"), "1234605616436508552 66") << gdb.text;
  const std::string edits = gdb.Answer("edits");
  EXPECT_THAT(edits, HasSubstr("copy of snapshot 12")) << gdb.text;
  EXPECT_THAT(edits, HasSubstr(absl::StrCat("memory 0x", gdb.Answer("address"), " 67120000")));
  EXPECT_THAT(edits, HasSubstr(" rbx 0x1122334455667788;"));
  EXPECT_THAT(edits, HasSubstr(" xmm5.hi 0x42;"));
  EXPECT_EQ(gdb.Answers("back"), std::vector<std::string>(3, "(True, True)")) << gdb.text;
  EXPECT_THAT(gdb.Answer("none"), HasSubstr("as it was taken"));
  EXPECT_THAT(gdb.text, HasSubstr("this is a throw-away copy now"));
  EXPECT_THAT(gdb.text, HasSubstr("exists"));
  const std::string saved = ReadFile(file);
  EXPECT_THAT(saved, ::testing::StartsWith("snapshot "));
  EXPECT_THAT(saved, HasSubstr(" 12\nmemory 0x"));
  EXPECT_THAT(saved, HasSubstr(" xmm5.hi 0x42\n"));
}

TEST(SnapshotViewTest, AFunctionCanBeCalledAndIsNoEdit) {
  const GdbResult gdb = RunGdb(Snapshots().trace(), absl::StrCat(kNumber, R"(
hindsight goto snapshot 12
python registers = all_registers()
set var last_round = 4711
python say("called", value("step(3, 5) != 0"))
python say("kept", (value("last_round"), all_registers() == registers))
python say("edits", gdb.execute("monitor edits", to_string=True).count("\n"))
)"));
  EXPECT_EQ(gdb.Answer("called"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("kept"), "('4711', True)") << gdb.text;
  EXPECT_EQ(gdb.Answer("edits"), "2") << gdb.text;
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
