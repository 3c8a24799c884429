// Functions that the dynamic linker binds and chooses: called from gdb before the program has
// called them, and as places for snapshots.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/files.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr char kProgram[] = "tests/snap/lazy";
constexpr char kStatic[] = "tests/snap/lazy_static";

// The call goes through the dynamic linker, which saves the registers of its arguments.
constexpr char kCalls[] = R"script(
hindsight goto snapshot 1
python before = all_registers()
python say("bound", value("measure(\"42\")"))
python say("again", value("measure(\"-1000\")"))
python say("length", value("(unsigned long) strlen(\"four\")"))
python say("kept", all_registers() == before)
)script";

void ExpectCalls(const GdbResult& gdb) {
  EXPECT_EQ(gdb.Answer("bound"), "10.5") << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), "-250") << gdb.text;
  EXPECT_EQ(gdb.Answer("length"), "4") << gdb.text;
  EXPECT_EQ(gdb.Answer("kept"), "True") << gdb.text;
}

std::string Snap(const TempDir& directory, const std::vector<std::string>& options,
                 const char* program = kProgram) {
  const std::string trace = directory.File("trace");
  std::vector<std::string> argv = {Hindsight(), "snap", "--quiet", "-o", trace};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.insert(argv.end(), {"--", program});
  const ChildResult snap = RunProcess(argv);
  EXPECT_EQ(snap.Ending(), "exit 0") << snap.err;
  return trace;
}

TEST(LibrariesTest, AFunctionIsCalledThatWasNotBoundInASnapshot) {
  const TempDir directory;
  ExpectCalls(RunGdb(Snap(directory, {}), kCalls));
}

TEST(LibrariesTest, AFunctionIsCalledThatWasNotBoundInARecording) {
  const Recorded recorded({kProgram}, {}, {"--snapshots"});
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectCalls(RunGdb(recorded.trace(), kCalls));
}

// The pc is what the program's pointer leads to (in a static program by a stub, which jumps to what
// was chosen), and the argument tells that it is a call: five are made, from one byte to the next.
constexpr char kArrivals[] = R"(
python
def chosen():
  target = int(gdb.parse_and_eval("(unsigned long) length_of"))
  stub = bytes(gdb.selected_inferior().read_memory(target, 16))
  jump = stub.find(b"\xff\x25", 0, 7)
  if jump < 0: return target
  slot = target + jump + 6 + int.from_bytes(stub[jump + 2:jump + 6], "little", signed=True)
  return int(gdb.parse_and_eval("*(unsigned long *) %d" % slot))
last = gdb.execute("monitor snapshots", to_string=True).count("\n")
for number in range(1, last + 1):
  gdb.execute("hindsight goto snapshot %d" % number)
  if functions()[1:2] != ["main"]: continue
  say("same", int(gdb.parse_and_eval("(unsigned long) $pc")) == chosen())
  say("argument", value("(char *) $rdi").split('"')[1])
end
)";

void ExpectArrivals(const GdbResult& gdb) {
  EXPECT_THAT(gdb.Answers("same"), Each("True")) << gdb.text;
  const std::vector<std::string> arguments = gdb.Answers("argument");
  ASSERT_EQ(arguments.size(), 5u) << gdb.text;
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(arguments[i], arguments[i - 1].substr(1));
}

TEST(LibrariesTest, AChosenFunctionIsAPlaceForSnapshots) {
  const TempDir directory;
  ExpectArrivals(RunGdb(Snap(directory, {"--trigger=none", "--at=strlen"}), kArrivals));
}

// What is chosen before the program runs is not what it uses.
TEST(LibrariesTest, AFunctionThatAStaticProgramChoosesIsAPlace) {
  const TempDir directory;
  ExpectArrivals(RunGdb(Snap(directory, {"--trigger=none", "--at=strlen"}, kStatic), kArrivals));
}

TEST(LibrariesTest, AFunctionThatAStaticProgramChoosesIsAPlaceInARecording) {
  SKIP_IF_TRANSLATED("--at is for the emulator");
  const Recorded recorded({kStatic}, {}, {"--trigger=none", "--at=strlen"});
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  ExpectArrivals(RunGdb(recorded.trace(), kArrivals));
}

TEST(LibrariesTest, AChosenFunctionIsAPlaceInARecording) {
  SKIP_IF_TRANSLATED("--at is for the emulator");
  const Recorded recorded({kProgram}, {}, {"--trigger=none", "--at=strlen"});
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  ExpectArrivals(RunGdb(recorded.trace(), kArrivals));
}

std::string Refined(const TempDir& directory, const Recorded& recorded, const std::string& place) {
  const std::string refined = directory.File("refined");
  const ChildResult refine =
      RunHindsight({"refine", recorded.trace(), "--at=" + place, "-o", refined});
  EXPECT_EQ(refine.Ending(), "exit 0") << refine.err;
  EXPECT_THAT(RunHindsight({"verify", refined}).out, testing::StartsWith("whole: "));
  return refined;
}

TEST(LibrariesTest, AChosenFunctionIsAPlaceWhereARecordingIsRefined) {
  for (const char* program : {kProgram, kStatic}) {
    const Recorded recorded({program}, {}, {});
    ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    const TempDir directory;
    ExpectArrivals(RunGdb(Refined(directory, recorded, "strlen"), kArrivals));
  }
}

TEST(LibrariesTest, ALineIsAPlaceWhereARecordingIsRefined) {
  const std::string source = ReadFile(Runfile("tests/snap/lazy.c"));
  const auto before = source.begin() + static_cast<ptrdiff_t>(source.find("length_of(arguments"));
  const auto line = 1 + std::count(source.begin(), before, '\n');
  const Recorded recorded({kProgram}, {}, {});
  const TempDir directory;
  const std::string place = absl::StrCat("lazy.c:", line);
  const GdbResult gdb = RunGdb(Refined(directory, recorded, place), R"(
python
last = gdb.execute("monitor snapshots", to_string=True).count("\n")
for number in range(2, last):
  gdb.execute("hindsight goto snapshot %d" % number)
  sal = gdb.selected_frame().find_sal()
  say("line", "%s:%d" % (sal.symtab.filename.split("/")[-1], sal.line))
end
)");
  EXPECT_EQ(gdb.Answers("line"), std::vector<std::string>(5, place)) << gdb.text;
  const ChildResult nowhere =
      RunHindsight({"refine", recorded.trace(), "--at=lazy.c:1", "-o", directory.File("none")});
  EXPECT_EQ(nowhere.Ending(), "exit 1");
  EXPECT_THAT(nowhere.err, HasSubstr("--at=lazy.c:1: that line has no code; the nearest"));
}

TEST(LibrariesTest, APlaceThatIsNowhereIsNamedAfterARecording) {
  SKIP_IF_TRANSLATED("--at is for the emulator");
  const TempDir directory;
  std::vector<std::string> argv = RecordCommand();
  argv.insert(argv.end(),
              {"-o", directory.File("trace"), "--at=mesure", "--at=lazy.c:1", "--", kProgram});
  const ChildResult run = RunProcess(argv);
  EXPECT_THAT(run.err, HasSubstr("--at=mesure: no function of that name; similar: measure"));
  EXPECT_THAT(run.err, HasSubstr("--at=lazy.c:1: that line has no code; the nearest"));
}

}  // namespace
}  // namespace hindsight::e2e
