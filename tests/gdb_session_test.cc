// Connections, ends of the recording, interruption, positions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string& Steps() {
  static const Recorded* recorded = new Recorded({Program("steps")});
  return recorded->trace();
}

// About a hundred million instructions.
const std::string& Loop() {
  static const Recorded* recorded = new Recorded({Program("loop"), "8"});
  return recorded->trace();
}

// What a session at a fresh server must be able to do.
constexpr char kShortSession[] = R"(
break triple
python say("hit", run("continue"))
python say("value", value("value"))
python say("back", run("reverse-continue"))
)";

void ExpectShortSession(const GdbResult& gdb) {
  EXPECT_EQ(gdb.Answer("hit"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("value"), "0") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "other") << gdb.text;
}

TEST(GdbSessionTest, ToTheEndAndBackToTheStart) {
  const GdbResult gdb = RunGdb(Steps(), R"(
python
start = all_registers()
say("end", run("continue"))
end_registers = all_registers()
say("still", run("continue"))
say("start", run("reverse-continue"))
say("same", all_registers() == start)
say("still there", run("reverse-continue"))
run("continue")
say("same end", all_registers() == end_registers)
end
)");
  EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("still"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("start"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("same end"), "True") << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("No more reverse-execution history."));
}

TEST(GdbSessionTest, LoopToTheEndAndBack) {
  const GdbResult gdb = RunGdb(Loop(), R"(
python
start = all_registers()
run("continue")
run("reverse-continue")
say("same", all_registers() == start)
end
)");
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
}

TEST(GdbSessionTest, OverStandardStreams) {
  TempDir directory;
  WriteFile(directory.File("script"), std::string(kShortSession) + "\necho \\nscript: complete\\n");
  std::vector<std::string> argv = {"gdb"};
  for (const std::string& argument : GdbArguments()) argv.push_back(argument);
  argv.insert(argv.end(),
              {"-ex", absl::StrCat("target remote | ", Hindsight(), " serve ", Steps(), " --stdio"),
               "-x", directory.File("script")});
  GdbResult gdb;
  gdb.child = RunProcess(argv);
  gdb.text = gdb.child.out + gdb.child.err;
  EXPECT_EQ(gdb.Answer("script"), "complete") << gdb.text;
  ExpectShortSession(gdb);
}

TEST(GdbSessionTest, OverAPortTheKernelChose) {
  ChildOptions options;
  options.timeout = absl::Seconds(200);
  Child server = Child::Start({Hindsight(), "serve", Steps(), "--listen=127.0.0.1:0"}, options);
  size_t position = 0;
  ASSERT_TRUE(server.WaitForOut("127.0.0.1:", &position)) << server.err();
  const size_t port = position;
  ASSERT_TRUE(server.WaitForOut("\n", &position)) << server.err();
  const std::string address = "127.0.0.1:" + std::to_string(std::stoi(server.out().substr(port)));
  TempDir directory;
  WriteFile(directory.File("script"), std::string(kShortSession) + "\necho \\nscript: complete\\n");
  std::vector<std::string> argv = {"gdb"};
  for (const std::string& argument : GdbArguments()) argv.push_back(argument);
  argv.insert(argv.end(), {"-ex", "target remote " + address, "-x", directory.File("script")});
  GdbResult gdb;
  gdb.child = RunProcess(argv);
  gdb.text = gdb.child.out + gdb.child.err;
  ExpectShortSession(gdb);
}

TEST(GdbSessionTest, SecondAndThirdSessionOnOneServer) {
  Server server(Steps());
  for (int session = 1; session <= 3; ++session) {
    SCOPED_TRACE(session);
    // The first leaves it by detach, the second by disconnect, the third by the end of gdb.
    const char* leave = session == 1 ? "detach\n" : session == 2 ? "disconnect\n" : "";
    ExpectShortSession(server.RunGdb(
        absl::StrCat(session == 1 ? "" : "monitor goto start\nmaintenance flush register-cache\n",
                     kShortSession, leave)));
  }
}

// One goes on where the one before left.
TEST(GdbSessionTest, PositionOutlivesTheConnection) {
  Server server(Steps());
  const GdbResult first = server.RunGdb(
      "break triple if value == 6\ncontinue\npython say(\"when\", when())\n"
      "python say(\"pc\", pc())\ndetach\n");
  const GdbResult second =
      server.RunGdb("python say(\"when\", when())\npython say(\"pc\", pc())\nbacktrace\n");
  EXPECT_EQ(second.Answer("when"), first.Answer("when")) << second.text;
  EXPECT_EQ(second.Answer("pc"), first.Answer("pc")) << second.text;
}

TEST(GdbSessionTest, KilledClientDoesNotTakeTheServerAlong) {
  Server server(Loop());
  {
    Child gdb = server.StartGdb("echo \\nready\\n\nset debug remote 1\ncontinue\n");
    size_t position = 0;
    ASSERT_TRUE(gdb.WaitForOut("ready", &position)) << gdb.err();
    gdb.Signal(SIGKILL);
    gdb.Finish();
  }
  const GdbResult next = server.RunGdb("break step\npython say(\"hit\", run(\"continue\"))\n");
  EXPECT_EQ(next.Answer("hit").substr(0, 10), "breakpoint") << next.text;
}

// Ctrl-C while `command` runs, which would go on for long.
void ExpectInterruptible(const std::string& prepare, const std::string& command,
                         const std::string& packet) {
  Server server(Loop());
  Child gdb = server.StartGdb(absl::StrCat(prepare, R"(
python
def interrupted():
    say("stop", _last_stop.stop_signal if isinstance(_last_stop, gdb.SignalEvent) else _last_stop)
end
echo \nready\n
set debug remote 1
)",
                                           command, R"(
set debug remote 0
python interrupted()
python say("alive", pc() != 0)
delete
python say("begin", run("reverse-continue"))
)"));
  size_t position = 0;
  ASSERT_TRUE(gdb.WaitForOut("ready", &position)) << gdb.err();
  size_t error_position = 0;  // the packet may have been sent already
  ASSERT_TRUE(gdb.WaitForErr("Sending packet: $" + packet, &error_position)) << gdb.err();
  gdb.Signal(SIGINT);
  GdbResult result;
  result.child = gdb.Finish();
  const std::string text = result.child.out + result.child.err.substr(0, 5000);
  EXPECT_EQ(result.Answer("stop"), "SIGINT") << text;
  EXPECT_EQ(result.Answer("alive"), "True") << text;
  EXPECT_EQ(result.Answer("begin"), "other") << text;
  EXPECT_LT(result.child.seconds, 100);
}

// A condition never true in the inner loop keeps both directions busy for a long time.
TEST(GdbInterruptTest, CtrlCStopsALongForwardRun) {
  ExpectInterruptible("break main\ncontinue\nbreak step if state == 1 && round == 77777777",
                      "continue", "vCont;c");
}

// gdb evaluates the conditions of watchpoints: one short run for each change of the value.
TEST(GdbInterruptTest, CtrlCStopsManyShortRunsForward) {
  ExpectInterruptible("break main\ncontinue\nwatch table[5] if table[5] == -5", "continue",
                      "vCont;c");
}

TEST(GdbInterruptTest, CtrlCStopsManyShortRunsBackward) {
  ExpectInterruptible("continue\nwatch table[5] if table[5] == -5", "reverse-continue", "bc");
}

// One run for each instruction.
TEST(GdbInterruptTest, CtrlCStopsSingleStepsBackward) {
  ExpectInterruptible("continue\nreverse-continue\ncontinue", "reverse-stepi 10000000", "bs");
}

TEST(GdbInterruptTest, CtrlCStopsALongBackwardRun) {
  ExpectInterruptible("continue\nbreak step if state == 1 && round == 77777777", "reverse-continue",
                      "bc");
}

TEST(GdbInterruptTest, CtrlCStopsALongBackwardRunUnderAWatchpoint) {
  ExpectInterruptible(
      "continue\nwatch -l *(int*)$sp if 1 == 2\nawatch last_round if last_round == 5",
      "reverse-continue", "bc");
}

// The program executes another: gdb follows it, and back.
TEST(GdbSessionTest, ExecIsFollowedBothWays) {
  const Recorded recorded({"/usr/bin/env", Program("steps"), "an argument"});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
set breakpoint pending on
break triple
python
def executable(): return gdb.execute("info proc exe", to_string=True).strip().rsplit("/", 1)[-1]
say("before", executable())
say("hit", run("continue") + " in " + function())
say("after", executable())
say("arguments", "an argument" in gdb.execute("info proc cmdline", to_string=True))
say("begin", run("reverse-continue"))
say("back", executable())
say("again", run("continue") + " in " + function())
end
)");
  EXPECT_EQ(gdb.Answer("before"), "env'") << gdb.text;
  EXPECT_EQ(gdb.Answer("hit"), "breakpoint 1 in triple") << gdb.text;
  EXPECT_EQ(gdb.Answer("after"), "steps'") << gdb.text;
  EXPECT_EQ(gdb.Answer("arguments"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("begin"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "env'") << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), "breakpoint 1 in triple") << gdb.text;
}

// Monitor commands.

TEST(GdbMonitorTest, HelpWhenEventsAndSnapshots) {
  const GdbResult gdb = RunGdb(Steps(), R"(
monitor help
monitor when
monitor events 1000
monitor snapshots
)");
  for (const char* word : {"help", "when", "goto", "snapshots", "events"}) {
    EXPECT_THAT(gdb.text, HasSubstr(word));
  }
  EXPECT_THAT(gdb.text, HasSubstr("write"));
}

TEST(GdbMonitorTest, JumpsAndPositions) {
  const GdbResult gdb = RunGdb(Steps(), R"(
python
import re
def position():
    return re.search(r"\b[0-9A-Fa-f]+:[0-9A-Fa-f]+\b", when()).group()
def goto(where):
    gdb.execute("monitor goto " + where)
    gdb.execute("maintenance flush register-cache")
    gdb.execute("frame 0", to_string=True)
start, first = position(), all_registers()
gdb.execute("break triple if value == 7")
run("continue")
there, registers = position(), all_registers()
goto("start")
say("start", (position(), all_registers()) == (start, first))
goto(there)
say("there", (position(), all_registers()) == (there, registers))
say("function", function())
goto("end")
say("end", position() != there)
goto("50%")
half = position()
goto("0%")
say("zero", all_registers() == first)
goto("snapshot 1")
say("snapshot", all_registers() == first)
goto(there)
say("again", all_registers() == registers)
end
)");
  for (const char* tag : {"start", "there", "end", "zero", "snapshot", "again"}) {
    EXPECT_EQ(gdb.Answer(tag), "True") << tag << "\n" << gdb.text;
  }
  EXPECT_EQ(gdb.Answer("function"), "triple") << gdb.text;
}

TEST(GdbMonitorTest, ImpossibleJumpsAreRefusedAndTheSessionLives) {
  const GdbResult gdb = RunGdb(Steps(), R"(
python
for where in ["nowhere", "FFFFFFFF:0", "101%", "snapshot 0", "snapshot 99", ""]:
    before = pc()
    try:
        said = gdb.execute("monitor goto " + where, to_string=True)
    except gdb.error as error:
        said = str(error)
    say("refused", said != "" and pc() == before)
end
break main
python say("hit", run("continue"))
)");
  for (const std::string& answer : gdb.Answers("refused")) EXPECT_EQ(answer, "True") << gdb.text;
  EXPECT_EQ(gdb.Answers("refused").size(), 6u);
  EXPECT_EQ(gdb.Answer("hit"), "breakpoint 1") << gdb.text;
}

// The exit of the program is shown, and one can go back from there.
TEST(GdbSessionTest, ExitIsShownAndCanBeLeftBackward) {
  const Recorded recorded({Program("hello")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
continue
break main
python say("back", run("reverse-continue") + " " + function())
)");
  EXPECT_EQ(gdb.Answer("back"), "breakpoint 1 main") << gdb.text;
  EXPECT_THAT(gdb.text, ContainsRegex("exit.* 42"));
}

}  // namespace
}  // namespace hindsight::e2e
