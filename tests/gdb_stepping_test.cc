// Single steps and the commands gdb builds from them, forward and backward.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Steps 1,000 instructions forward and back from the current position, and compares the general
// registers in every state, and all registers in every twentieth and at both ends.
constexpr char kThousandSteps[] = R"(
python
states = []
for i in range(1001):
    states.append((general_registers(), all_registers() if i % 20 == 0 else None))
    if i < 1000: run("stepi")
say("registers", len(states[0][1]))
say("distinct", len(set(general for general, _ in states)))
different = []
for i in reversed(range(1000)):
    run("reverse-stepi")
    general, everything = states[i]
    if general_registers() != general or (everything and all_registers() != everything):
        different.append(i)
say("different", different)
for i in range(1000): run("stepi")
say("again", (general_registers(), all_registers()) == states[1000])
end
)";

void ExpectThousandSteps(const std::string& trace, const std::string& start) {
  const GdbResult gdb = RunGdb(trace, start + kThousandSteps);
  EXPECT_EQ(gdb.Answer("different"), "[]") << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), "True") << gdb.text;
  // 16 general registers, pc, flags, 6 segments, 2 bases, 16 of x87, 16 of SSE, mxcsr.
  int registers = 0, distinct = 0;
  EXPECT_TRUE(absl::SimpleAtoi(gdb.Answer("registers"), &registers));
  EXPECT_TRUE(absl::SimpleAtoi(gdb.Answer("distinct"), &distinct));
  EXPECT_GE(registers, 59) << gdb.text;
  EXPECT_GE(distinct, 900) << gdb.text;
}

const std::string& Steps() {
  static const Recorded* recorded = new Recorded({Program("steps")});
  return recorded->trace();
}

TEST(GdbSteppingTest, ThousandStepsFromTheVeryStart) { ExpectThousandSteps(Steps(), ""); }

TEST(GdbSteppingTest, ThousandStepsFromMain) {
  ExpectThousandSteps(Steps(), "break main\ncontinue\n");
}

TEST(GdbSteppingTest, ThousandStepsThroughFloatingPoint) {
  const Recorded recorded({Program("numbers")});
  ExpectThousandSteps(recorded.trace(), "break main\ncontinue\n");
}

// Light keyframes in between are not seen.
TEST(GdbSteppingTest, ThousandStepsAcrossSegments) {
  const Recorded recorded({Program("steps")}, {}, {"--light-keyframe-interval=700"});
  ExpectThousandSteps(recorded.trace(), "break main\ncontinue\n");
}

TEST(GdbSteppingTest, VectorInstructionsStep) {
  const Recorded recorded({Program("vectors")});
  ExpectThousandSteps(recorded.trace(), "break whole_work\ncontinue\n");
}

// A REP is one step, forward and backward.
TEST(GdbSteppingTest, RepeatedStringInstructionIsOneStep) {
  const Recorded recorded({Program("strings")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break rep_movsb
continue
python
while instruction() != "rep": run("stepi")
say("before", value("$rcx") + " " + gdb.parse_and_eval("(char*)target").string()[:5])
at = pc()
run("stepi")
say("after", value("$rcx") + " " + gdb.parse_and_eval("(char*)target").string()[:5])
say("left", pc() != at)
run("reverse-stepi")
say("again", value("$rcx") + " " + gdb.parse_and_eval("(char*)target").string()[:5])
say("back", pc() == at)
end
)");
  EXPECT_EQ(gdb.Answer("before"), "19 .....") << gdb.text;
  EXPECT_EQ(gdb.Answer("after"), "0 the q") << gdb.text;
  EXPECT_EQ(gdb.Answer("left"), "True");
  EXPECT_EQ(gdb.Answer("again"), "19 .....") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "True");
}

// Lines of steps.c that the scripts expect, by their markers.
std::string Expected(const std::string& format) {
  return absl::Substitute(format, LineOf("steps.c", "// first accumulate"),
                          LineOf("steps.c", "// call deeper"), LineOf("steps.c", "// fill text"),
                          LineOf("steps.c", "// accumulate returns"),
                          LineOf("steps.c", "// write counter"));
}

TEST(GdbSteppingTest, NextAndReverseNextSkipCalls) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
python
lines, functions = [line()], set()
def go(command):
    before = line()
    # Backward, gdb stops at each part of a line that the compiler marked as a statement.
    while line() == before:
        run(command)
        functions.add(function())
    lines.append(line())
for command in ["next", "next", "reverse-next", "reverse-next", "next", "reverse-next"]:
    go(command)
say("lines", " ".join(map(str, lines)))
say("functions", functions)
end
)");
  EXPECT_EQ(gdb.Answer("lines"), Expected("$0 $1 $2 $1 $0 $1 $0")) << gdb.text;
  EXPECT_EQ(gdb.Answer("functions"), "{'main'}");
}

TEST(GdbSteppingTest, StepAndReverseStepEnterCalls) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
step
python say("forward", function())
reverse-step
python say("out", "%s %d" % (function(), line()))
next
python say("after", line())
reverse-step
python say("backward", function())
)");
  EXPECT_EQ(gdb.Answer("forward"), "accumulate") << gdb.text;
  EXPECT_EQ(gdb.Answer("out"), Expected("main $0")) << gdb.text;
  EXPECT_EQ(gdb.Answer("after"), Expected("$1")) << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), "accumulate") << gdb.text;
}

TEST(GdbSteppingTest, FinishAndReverseFinish) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break triple
continue
delete
finish
python say("finish", function())
python say("value", value("$"))
finish
python say("again", "%s %d" % (function(), line()))
python say("sum", value("$"))
reverse-step
python say("inside", function())
reverse-finish
python say("call", "%s %d %s" % (function(), line(), instruction()))
)");
  EXPECT_EQ(gdb.Answer("finish"), "accumulate") << gdb.text;
  EXPECT_EQ(gdb.Answer("value"), "0") << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), Expected("main $0")) << gdb.text;
  EXPECT_EQ(gdb.Answer("sum"), "135") << gdb.text;
  EXPECT_EQ(gdb.Answer("inside"), "accumulate") << gdb.text;
  EXPECT_EQ(gdb.Answer("call"), Expected("main $0 call")) << gdb.text;
}

// From the depth of a recursion outward, both ways.
TEST(GdbSteppingTest, FinishAndReverseFinishInRecursion) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break accumulate if rounds == 5
continue
delete
python
def depth():
    count, frame = 0, gdb.selected_frame()
    while frame is not None: count, frame = count + 1, frame.older()
    return count
depths = [depth()]
for command in ["reverse-finish", "reverse-finish", "reverse-finish"]:
    run(command)
    depths.append(depth())
say("backward", " ".join(str(d - depths[-1]) for d in depths))
end
break accumulate if rounds == 5
continue
delete
python
depths = [depth()]
for command in ["finish", "finish", "finish"]:
    run(command)
    depths.append(depth())
say("forward", " ".join(str(d - depths[-1]) for d in depths))
end
)");
  EXPECT_EQ(gdb.Answer("backward"), "3 2 1 0") << gdb.text;
  EXPECT_EQ(gdb.Answer("forward"), "3 2 1 0") << gdb.text;
}

TEST(GdbSteppingTest, UntilAndAdvance) {
  const std::string script = absl::Substitute(
      R"(
break steps.c:$0
continue
delete
until $1
python say("until", "%s %d" % (function(), line()))
python say("sum", value("sum"))
advance main
python say("advance", "%s %d" % (function(), line()))
)",
      LineOf("steps.c", "// write counter"), LineOf("steps.c", "// accumulate returns"));
  const GdbResult gdb = RunGdb(Steps(), script);
  EXPECT_EQ(gdb.Answer("until"), Expected("accumulate $3")) << gdb.text;
  EXPECT_EQ(gdb.Answer("sum"), "135");
  EXPECT_EQ(gdb.Answer("advance"), Expected("main $0")) << gdb.text;
}

// N forward and N back, through calls, signals and system calls, is where one was.
TEST(GdbSteppingTest, StepsWithCountsAreSymmetric) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
delete
python
for count in [1, 7, 100, 2500]:
    before = all_registers()
    run("stepi %d" % count)
    middle = all_registers()
    run("reverse-stepi %d" % count)
    same = all_registers() == before
    run("stepi %d" % count)
    say("symmetric", "%s %s" % (same, all_registers() == middle))
end
)");
  for (const std::string& answer : gdb.Answers("symmetric")) EXPECT_EQ(answer, "True True");
  EXPECT_EQ(gdb.Answers("symmetric").size(), 4u) << gdb.text;
}

}  // namespace
}  // namespace hindsight::e2e
