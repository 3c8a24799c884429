// Breakpoints and watchpoints, conditional and not, forward and backward.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

const std::string& Steps() {
  static const Recorded* recorded = new Recorded({Program("steps")});
  return recorded->trace();
}

std::string At(const std::string& marker) {
  return absl::StrCat("steps.c:", LineOf("steps.c", marker));
}

// The guest's loops: i from 0 to 9, and then from 0 to 4.
constexpr char kForward[] = "0 1 2 3 4 5 6 7 8 9 0 1 2 3 4";
constexpr char kBackward[] = "4 3 2 1 0 9 8 7 6 5 4 3 2 1 0";

TEST(GdbBreakpointsTest, EveryHitBothWays) {
  const GdbResult gdb = RunGdb(Steps(), absl::Substitute(R"(
break $0
python say("forward", collect("continue", "i"))
python say("backward", collect("reverse-continue", "i"))
python say("again", collect("continue", "i"))
)",
                                                         At("// after triple")));
  EXPECT_EQ(gdb.Answer("forward"), kForward) << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), kBackward) << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), kForward) << gdb.text;
}

TEST(GdbBreakpointsTest, HardwareBreakpointsAreTheSame) {
  const GdbResult gdb = RunGdb(Steps(), absl::Substitute(R"(
hbreak $0
python say("forward", collect("continue", "i"))
python say("backward", collect("reverse-continue", "i"))
)",
                                                         At("// after triple")));
  EXPECT_EQ(gdb.Answer("forward"), kForward) << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), kBackward) << gdb.text;
}

TEST(GdbBreakpointsTest, ConditionsBothWays) {
  for (const char* where : {"host", "target", "auto"}) {
    SCOPED_TRACE(where);
    const GdbResult gdb = RunGdb(Steps(), absl::Substitute(R"(
set breakpoint condition-evaluation $1
break $0 if i % 4 == 2 && sum >= 0
python say("forward", collect("continue", "i"))
python say("backward", collect("reverse-continue", "i"))
)",
                                                           At("// after triple"), where));
    EXPECT_EQ(gdb.Answer("forward"), "2 6 2") << gdb.text;
    EXPECT_EQ(gdb.Answer("backward"), "2 6 2") << gdb.text;
  }
}

TEST(GdbBreakpointsTest, IgnoreCountsBothWays) {
  const GdbResult gdb = RunGdb(Steps(), absl::Substitute(R"(
break $0
ignore 1 11
continue
python say("twelfth", value("i"))
ignore 1 5
reverse-continue
python say("back", value("i"))
)",
                                                         At("// after triple")));
  EXPECT_EQ(gdb.Answer("twelfth"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "5") << gdb.text;
}

TEST(GdbBreakpointsTest, BreakpointIsNotHitTwiceWhereOneStands) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
python say("back", run("reverse-continue"))
python say("forward", run("continue"))
python say("step", run("stepi"))
python say("onto", run("reverse-stepi"))
python say("end", run("continue"))
python say("main", run("reverse-continue"))
python say("begin", run("reverse-continue"))
)");
  EXPECT_EQ(gdb.Answer("back"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("forward"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("main"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("begin"), "other") << gdb.text;
}

TEST(GdbBreakpointsTest, MemoryShowsNoBreakpointInstructions) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
python
def code(): return gdb.selected_inferior().read_memory(pc(), 16).tobytes().hex()
before = code()
end
break *$pc+4
hbreak triple
python say("same", before == code())
)");
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
}

// counter goes 0 (unchanged) 10 ... 90, 0 10 ... 40, 1000.
constexpr char kValuesForward[] = "10 20 30 40 50 60 70 80 90 0 10 20 30 40 1000";
constexpr char kValuesBackward[] = "40 30 20 10 0 90 80 70 60 50 40 30 20 10 0";

TEST(GdbWatchpointsTest, EveryChangeBothWays) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
watch counter
python say("forward", collect("continue", "counter"))
delete 1
python say("backward", collect("reverse-continue", "counter"))
python say("again", collect("continue", "counter"))
)");
  EXPECT_EQ(gdb.Answer("forward"), kValuesForward) << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), kValuesBackward) << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), kValuesForward) << gdb.text;
}

// Going back, the write is undone: pc on the writing instruction, the old value in memory.
TEST(GdbWatchpointsTest, BackwardStopsOnTheWritingInstruction) {
  const GdbResult gdb = RunGdb(Steps(), absl::Substitute(R"(
break $0
continue
watch counter
reverse-continue
python
say("line", line())
say("value", value("counter"))
say("instruction", instruction())
run("stepi")
say("stepped", value("counter"))
end
)",
                                                         At("// accumulate returns")));
  EXPECT_EQ(gdb.Answer("line"), absl::StrCat(LineOf("steps.c", "// write counter"))) << gdb.text;
  EXPECT_EQ(gdb.Answer("value"), "80") << gdb.text;
  EXPECT_EQ(gdb.Answer("instruction"), "mov") << gdb.text;
  EXPECT_EQ(gdb.Answer("stepped"), "90") << gdb.text;
  EXPECT_NE(gdb.text.find("Old value = 90"), std::string::npos) << gdb.text;
  EXPECT_NE(gdb.text.find("New value = 80"), std::string::npos) << gdb.text;
}

TEST(GdbWatchpointsTest, ReadAndAccessWatchpoints) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
rwatch history[3]
python say("reads", run("continue"))
python say("value", value("history[3]"))
delete 2
awatch history[2]
python say("access", run("continue"))
python say("accesses", 1 + len(collect("continue", "history[2]").split()))
delete 1
python say("backward", len(collect("reverse-continue", "history[2]").split()))
)");
  EXPECT_EQ(gdb.Answer("reads"), "breakpoint 2") << gdb.text;
  EXPECT_EQ(gdb.Answer("value"), "9") << gdb.text;
  EXPECT_EQ(gdb.Answer("access"), "breakpoint 3") << gdb.text;
}

TEST(GdbWatchpointsTest, ConditionsBothWays) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
watch counter if counter > 60
python say("forward", collect("continue", "counter"))
delete 1
python say("backward", collect("reverse-continue", "counter"))
)");
  EXPECT_EQ(gdb.Answer("forward"), "70 80 90 1000") << gdb.text;
  // Tested after the write is undone.
  EXPECT_EQ(gdb.Answer("backward"), "90 80 70") << gdb.text;
}

TEST(GdbWatchpointsTest, LargeAndManyRegions) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
delete
watch text
watch history
watch counter
watch history[7]
watch history[1]
watch *(char*)&text[3]
python say("forward", len(collect("continue", "counter").split()))
python say("backward", len(collect("reverse-continue", "counter").split()))
python say("text", repr(gdb.parse_and_eval("(char*)text").string()))
)");
  EXPECT_EQ(gdb.Answer("text"), "''") << gdb.text;
  int forward = 0, backward = 0;
  EXPECT_TRUE(absl::SimpleAtoi(gdb.Answer("forward"), &forward));
  EXPECT_TRUE(absl::SimpleAtoi(gdb.Answer("backward"), &backward));
  // 15 changes of counter and at least 9 of history.
  EXPECT_GE(forward, 25) << gdb.text;
  EXPECT_GE(backward, 25) << gdb.text;
}

// Written by the kernel during a system call.
TEST(GdbWatchpointsTest, WritesBySystemCallsAreSeen) {
  const Recorded recorded({Program("memory_maps")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break readv
continue
python
vector = int(gdb.parse_and_eval("(unsigned long)$rsi"))
base = int(gdb.parse_and_eval("*(unsigned long*)%d" % vector))
say("before", value("*(unsigned char*)%d" % (base + 50)))
gdb.execute("watch -l *(unsigned char*)%d" % (base + 50))
say("stop", run("continue"))
say("after", value("*(unsigned char*)%d" % (base + 50)))
say("back", run("reverse-continue"))
say("instruction", instruction())
end
)");
  EXPECT_EQ(gdb.Answer("stop"), "breakpoint 2") << gdb.text;
  EXPECT_EQ(gdb.Answer("after"), "50 '2'") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "breakpoint 2") << gdb.text;
  EXPECT_EQ(gdb.Answer("instruction"), "syscall") << gdb.text;
}

// The whole story: from the crash to the guilty write.
TEST(GdbWatchpointsTest, FromTheCrashToTheGuiltyWrite) {
  const Recorded recorded({Program("die_by_segv")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
python say("crash", run("continue"))
python say("at", line())
up
python say("caller", function())
down
watch -l last.next
python say("back", run("reverse-continue"))
python say("guilty", line())
python say("value", value("last.next"))
python say("forward", run("continue"))
python say("crash again", run("continue"))
python say("end", run("continue"))
python say("crash back", run("reverse-continue"))
)");
  EXPECT_EQ(gdb.Answer("crash"), "signal SIGSEGV") << gdb.text;
  EXPECT_EQ(gdb.Answer("at"), absl::StrCat(LineOf("die_by_segv.c", "// dies here"))) << gdb.text;
  EXPECT_EQ(gdb.Answer("caller"), "main");
  EXPECT_EQ(gdb.Answer("back"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("guilty"), absl::StrCat(LineOf("die_by_segv.c", "// guilty write")))
      << gdb.text;
  EXPECT_EQ(gdb.Answer("value"), "0x0") << gdb.text;
  EXPECT_EQ(gdb.Answer("crash again"), "signal SIGSEGV") << gdb.text;
}

// The demonstration's own script finds the line it promises.
TEST(GdbWatchpointsTest, DemonstrationFindsTheOverrun) {
  const Recorded recorded({Runfile("examples/warehouse")});
  EXPECT_EQ(recorded.run().Ending(), "signal 11");
  const GdbResult gdb =
      RunGdb(recorded.trace(), "source " + Runfile("examples/warehouse.gdb") + "\n" +
                                   "python say(\"function\", function())\n"
                                   "python say(\"caller\", caller())\n");
  EXPECT_NE(gdb.Answer("function").find("Remember"), std::string::npos) << gdb.text;
  EXPECT_NE(gdb.Answer("caller").find("Move"), std::string::npos) << gdb.text;
  EXPECT_NE(gdb.text.find("shelf.movements[shelf.next] = change"), std::string::npos) << gdb.text;
}

}  // namespace
}  // namespace hindsight::e2e
