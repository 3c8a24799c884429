// hindsight snap --on-signal and --at, compared with what the real gdb shows of the live program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/harness/gdb.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class TriggersTest : public testing::Test {
 protected:
  std::vector<std::string> Command(const std::vector<std::string>& options,
                                   const std::vector<std::string>& program) const {
    std::vector<std::string> argv = {Hindsight(), "snap", "-o", trace_};
    argv.insert(argv.end(), options.begin(), options.end());
    if (!program.empty()) argv.push_back("--");
    argv.insert(argv.end(), program.begin(), program.end());
    return argv;
  }
  ChildResult Snap(const std::vector<std::string>& options,
                   const std::vector<std::string>& program) const {
    return RunProcess(Command(options, program));
  }
  std::vector<ProcessEvent> Snapshots() const {
    std::vector<ProcessEvent> snapshots;
    const auto trace = TraceReader::Open(trace_);
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (!trace.ok()) return snapshots;
    for (const ProcessEvent& event : (*trace)->events()) {
      if (event.kind == EventKind::kSnapshot) snapshots.push_back(event);
    }
    EXPECT_EQ(snapshots.size(), (*trace)->full_keyframes().size());
    return snapshots;
  }
  static std::string Helper(const std::string& name) { return Runfile("tests/snap/" + name); }

  TempDir directory_;
  const std::string trace_ = directory_.path() + "/trace";
};

// Frames of the current thread, and how many threads there are.
constexpr char kLook[] = R"(
python say("threads", len(gdb.selected_inferior().threads()))
python
frame = gdb.selected_frame()
while frame and frame.name() != "start_thread":
  say("frame", "%s %s" % (frame.name(), frame.find_sal().line))
  frame = frame.older()
end
python say("signal", value("$_siginfo.si_signo"))
python say("address", value("$_siginfo._sifields._sigfault.si_addr"))
python say("code", value("$_siginfo.si_code"))
python say("left", value("left") if gdb.selected_frame().name() == "sum" else "")
)";

std::vector<std::string> Look(const GdbResult& gdb) {
  std::vector<std::string> all = gdb.Answers("frame");
  for (const char* tag : {"threads", "signal", "address", "code", "left"}) {
    all.push_back(absl::StrCat(tag, " ", gdb.Answer(tag)));
  }
  return all;
}

TEST_F(TriggersTest, CrashIsShownAsOnTheLiveProcess) {
  EXPECT_EQ(Snap({"--on-signal=SEGV"}, {Helper("crash")}).Ending(), "signal 11");
  const std::vector<std::string> live =
      Look(RunGdbOnProgram({Helper("crash")}, absl::StrCat("continue\n", kLook)));
  const GdbResult gdb = RunGdb(trace_, kLook);
  EXPECT_EQ(Look(gdb), live) << gdb.text;
  EXPECT_THAT(live, ::testing::Contains("signal 11"));
  const std::string core = directory_.File("core");
  const ChildResult written = RunProcess({Hindsight(), "core", trace_, "1", "-o", core});
  EXPECT_EQ(written.Ending(), "exit 0") << written.err;
  std::ofstream(directory_.File("script")) << kLook;
  std::vector<std::string> argv = {"/usr/bin/gdb"};
  for (const std::string& argument : GdbArguments()) argv.push_back(argument);
  argv.insert(argv.end(), {Helper("crash"), core, "-x", directory_.File("script")});
  GdbResult on_core;
  on_core.child = RunProcess(argv);
  on_core.text = on_core.child.out + on_core.child.err;
  EXPECT_EQ(Look(on_core), live) << on_core.text;
}

TEST_F(TriggersTest, AbortLeavesItsSnapshotAndTheProgramItsEnd) {
  EXPECT_EQ(Snap({"--on-signal=SEGV,ABRT"}, {Helper("crash"), "x"}).Ending(), "signal 6");
  const std::vector<ProcessEvent> snapshots = Snapshots();
  ASSERT_EQ(snapshots.size(), 1u);
  EXPECT_EQ(snapshots[0].arguments.at(1), 6u);
  EXPECT_EQ(snapshots[0].arguments.at(4), static_cast<uint64_t>(SIGABRT));
  EXPECT_EQ(snapshots[0].text, "label=SIGABRT\n");
}

// The program looks at each signal, each interrupted call and each child.
TEST_F(TriggersTest, SignalsArriveAsTheyWereSent) {
  const ChildResult alone = RunProcess({Helper("signals")});
  ASSERT_EQ(alone.out, "complaints 0\n");
  const ChildResult all = Snap({"--on-signal=USR1,SEGV,CHLD"}, {Helper("signals")});
  EXPECT_EQ(all.Ending(), "exit 3");
  EXPECT_EQ(all.out, "complaints 0\n");
  std::vector<int> numbers;
  for (const ProcessEvent& event : Snapshots()) {
    numbers.push_back(static_cast<int>(event.arguments.at(4)));
  }
  EXPECT_EQ(std::count(numbers.begin(), numbers.end(), SIGUSR1), 6);
  EXPECT_EQ(std::count(numbers.begin(), numbers.end(), SIGSEGV), 3);
  EXPECT_GE(std::count(numbers.begin(), numbers.end(), SIGCHLD), 6);
}

TEST_F(TriggersTest, TracedForOneSignalAllOthersArrive) {
  const ChildResult result = Snap({"--on-signal=ABRT"}, {Helper("signals"), "abort"});
  EXPECT_EQ(result.Ending(), "signal 6");
  EXPECT_EQ(result.out, "complaints 0\n");
  EXPECT_EQ(Snapshots().size(), 1u);
}

// Each arrival counts once, whatever the other threads do at the same time.
TEST_F(TriggersTest, NoArrivalIsMissed) {
  const ChildResult result =
      Snap({"--at=work", "--skip=1000", "--stride=500"}, {Helper("arrivals"), "4", "1000"});
  EXPECT_EQ(result.out, "arrivals 4000 failures 0\n") << result.err;
  const std::vector<ProcessEvent> snapshots = Snapshots();
  ASSERT_EQ(snapshots.size(), 6u);
  for (const ProcessEvent& event : snapshots) {
    EXPECT_EQ(event.arguments.at(1), 8u);
    EXPECT_EQ(event.text, "label=work\n");
  }
  // The thread is before the first instruction, and the code is the program's own.
  const GdbResult gdb = RunGdb(trace_, R"(
python
for number in range(6):
  say("pc", value("$pc == (void *) &work"))
  say("frame", caller())
  say("arrivals", value("arrivals"))
  say("code", value("*(unsigned char *) &work"))
  if number < 5: gdb.execute("continue")
end
)");
  EXPECT_THAT(gdb.Answers("pc"), ElementsAre("1", "1", "1", "1", "1", "1"));
  EXPECT_THAT(gdb.Answers("frame"), ElementsAre("run", "run", "run", "run", "run", "run"));
  // Threads that came earlier may not have counted yet.
  int64_t expected = 1000;
  for (const std::string& text : gdb.Answers("arrivals")) {
    int64_t arrivals = 0;
    ASSERT_TRUE(absl::SimpleAtoi(text, &arrivals));
    EXPECT_LE(arrivals, expected);
    EXPECT_GE(arrivals, expected - 4);
    expected += 500;
  }
  for (const std::string& code : gdb.Answers("code")) EXPECT_THAT(code, Not(HasSubstr("204")));
}

TEST_F(TriggersTest, InstructionsOfAllKindsCanBeArrivedAt) {
  const ChildResult result = Snap(
      {"--at=relative", "--at=calling", "--at=jumping", "--at=repeating", "--skip=200", "--max=3"},
      {Helper("arrivals"), "4", "800"});
  EXPECT_EQ(result.out, "arrivals 3200 failures 0\n") << result.err;
  EXPECT_EQ(Snapshots().size(), 3u);
}

TEST_F(TriggersTest, LibraryThatIsLoadedLater) {
  const ChildResult result =
      Snap({"--at=late", "--at=waitpid"}, {Helper("arrivals"), "1", "10", Helper("liblate.so")});
  EXPECT_EQ(result.out, "arrivals 10 failures 0\n") << result.err;
  std::vector<std::string> labels;
  for (const ProcessEvent& event : Snapshots()) labels.push_back(event.text);
  ASSERT_EQ(labels.size(), 7u);
  EXPECT_EQ(labels[0], "label=waitpid\n");
  EXPECT_EQ(labels[6], "label=late\n");
  const GdbResult gdb = RunGdb(trace_, R"(
hindsight goto snapshot 7
python say("function", gdb.execute("info symbol $pc", to_string=True).split()[0])
python say("argument", value("$edi"))
)");
  EXPECT_EQ(gdb.Answer("function"), "late");
  EXPECT_EQ(gdb.Answer("argument"), "4");
}

TEST_F(TriggersTest, PlaceThatIsNowhereIsNamed) {
  const ChildResult result = Snap({"--at=wrok"}, {Helper("arrivals"), "1", "10"});
  EXPECT_EQ(result.Ending(), "exit 0");
  EXPECT_THAT(result.err, HasSubstr("--at=wrok: no function of that name"));
}

// The places that the real gdb finds for the same lines: one in a function, one in each copy of a
// function that is inlined.
TEST_F(TriggersTest, LinesOfTheSource) {
  const std::string source = ReadFile(Runfile("tests/snap/arrivals.c"));
  for (const char* text :
       {"return counts[thread] += i & 1;", "work(thread, i);", "if (bytes[i] != 9) return 0;"}) {
    const size_t at = source.find(text);
    ASSERT_NE(at, source.npos) << text;
    const int64_t line =
        1 + std::count(source.begin(), source.begin() + static_cast<long>(at), '\n');
    const std::string place = absl::StrCat("arrivals.c:", line);
    std::filesystem::remove_all(trace_);
    const ChildResult result =
        Snap({"--at=" + place, "--max=6", "--skip=10"}, {Helper("arrivals"), "2", "800"});
    EXPECT_EQ(result.out, "arrivals 1600 failures 0\n") << result.Ending() << result.err;
    const GdbResult live = RunGdbOnProgram({Helper("arrivals")}, absl::Substitute(R"(
break $0
python
for location in gdb.breakpoints()[0].locations:
  say("place", location.address - int(gdb.parse_and_eval("(long) &work")))
end
)",
                                                                                  place));
    const GdbResult gdb = RunGdb(trace_, R"(
python
for number in range(6):
  say("place", pc() - int(gdb.parse_and_eval("(long) &work")))
  say("line", line())
  if number < 5: gdb.execute("continue")
end
)");
    EXPECT_THAT(gdb.Answers("line"), ::testing::Each(absl::StrCat(line))) << gdb.text;
    for (const std::string& found : gdb.Answers("place")) {
      EXPECT_THAT(live.Answers("place"), ::testing::Contains(found)) << text;
    }
  }
}

TEST_F(TriggersTest, LinesWithoutCodeAreNamedWithTheirNeighbours) {
  const ChildResult none =
      Snap({"--at=arrivals.c:3", "--at=elsewhere.c:3"}, {Helper("arrivals"), "1", "10"});
  EXPECT_EQ(none.Ending(), "exit 0");
  EXPECT_THAT(none.err,
              HasSubstr("--at=arrivals.c:3: that line has no code; the nearest that has"));
  EXPECT_THAT(none.err,
              HasSubstr("--at=elsewhere.c:3: no code with line numbers (-g) is of a file"));
}

TEST_F(TriggersTest, ConfigurationFile) {
  std::ofstream(directory_.File("snap.toml"))
      << "at = [\"work\", \"late\"]\non-signal = [\"SEGV\", \"ABRT\"]\nstride = 100\nmax = 7\n";
  const ChildResult result = Snap({"--config=" + directory_.File("snap.toml"), "--max=4"},
                                  {Helper("arrivals"), "2", "1000"});
  EXPECT_EQ(result.out, "arrivals 2000 failures 0\n") << result.Ending() << result.err;
  EXPECT_EQ(Snapshots().size(), 4u);
}

TEST_F(TriggersTest, AttachedProcessIsLeftAsItWas) {
  Child program = Child::Start({Helper("arrivals"), "3", "200000000"});
  const std::string name = absl::StrCat("/proc/", program.pid(), "/comm");
  while (ReadFile(name) != "arrivals\n") usleep(1000);
  Child child = Child::Start(
      Command({"--at=work", "--interval=5ms", absl::StrCat("--attach=", program.pid())}, {}));
  ASSERT_TRUE(child.WaitForFile(trace_ + "/full/5")) << child.err();
  child.Signal(SIGINT);
  const ChildResult result = child.Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_GE(Snapshots().size(), 5u);
  // Whoever comes next finds the code as it was.
  const ChildResult gdb =
      RunProcess({"/usr/bin/gdb", "-nx", "-batch", "-p", absl::StrCat(program.pid()), "-ex",
                  "p *(unsigned char*)&work == 0xcc"});
  EXPECT_THAT(gdb.out, HasSubstr("$1 = 0")) << gdb.err;
  EXPECT_EQ(kill(program.pid(), 0), 0);
}

}  // namespace
}  // namespace hindsight::e2e
