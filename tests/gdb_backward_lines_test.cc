// reverse-next and reverse-step over lines: the result is that of gdb by itself, but fast.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// gdb itself: one instruction after the other.
constexpr char kPlain[] = "define hook-reverse-next\nend\ndefine hook-reverse-step\nend\n";

// Where `count` times `command` lead from line `from` of `file`, and what it was at each.
std::string Walk(const std::string& trace, const std::string& prepare, const std::string& from,
                 const std::string& command, int count) {
  const GdbResult gdb =
      RunGdb(trace, absl::StrCat(prepare, absl::Substitute(R"(
break $0
continue
delete
python
places = []
for i in range($2):
    stop = run("$1")
    places.append("%s %d %x %s %s" % (function(), line(), pc(), stop, when()))
say("walk", ", ".join(places))
end
)",
                                                           from, command, count)));
  return gdb.Answer("walk");
}

void ExpectSameWalk(const Recorded& recorded, const std::string& from, const std::string& command,
                    int count) {
  const std::string plain = Walk(recorded.trace(), kPlain, from, command, count);
  EXPECT_EQ(Walk(recorded.trace(), "", from, command, count), plain) << from << " " << command;
}

std::string Line(const std::string& file, const std::string& text) {
  return absl::StrCat(file, ":", LineOf(file, "// " + text));
}

TEST(GdbBackwardLinesTest, LoopsCallsRecursionsAndJumpsAreWalkedAsGdbDoes) {
  const Recorded recorded({Program("one_line_loops"), "20"});
  // The longjmp is left out: see below.
  const std::string from = Line("one_line_loops.c", "before the jumping loop");
  ExpectSameWalk(recorded, from, "reverse-next", 12);
  ExpectSameWalk(recorded, from, "reverse-step", 120);
}

TEST(GdbBackwardLinesTest, FunctionsAreWalkedAsGdbDoes) {
  const Recorded recorded({Program("steps")});
  const std::string from = Line("steps.c", "last write");
  ExpectSameWalk(recorded, from, "reverse-next", 12);
  ExpectSameWalk(recorded, from, "reverse-step", 150);
}

TEST(GdbBackwardLinesTest, OptimisedProgramsAreWalkedAsGdbDoes) {
  const Recorded recorded({Program("signal_handlers")});
  ExpectSameWalk(recorded, "exit", "reverse-next", 60);
  ExpectSameWalk(recorded, "exit", "reverse-step", 60);
}

TEST(GdbBackwardLinesTest, BreakpointsInCalledFunctionsStop) {
  const Recorded recorded({Program("one_line_loops"), "20"});
  const GdbResult gdb =
      RunGdb(recorded.trace(), absl::Substitute(R"(
break $0
continue
delete
break odd if i == 7
python say("stop", run("reverse-next") + " " + function() + " " + value("i"))
delete
python say("out", run("reverse-finish") + " " + function())
python say("line", run("reverse-next") + " %d" % line())
python run("reverse-stepi 1")
python say("single", line())
)",
                                                Line("one_line_loops.c", "before the recursion")));
  // Into the line first, which has several parts.
  EXPECT_EQ(gdb.Answer("stop"), "breakpoint 2 odd 7") << gdb.text;
  EXPECT_EQ(gdb.Answer("out"), "other main");
}

// 300,000 rounds without and with calls: 2.4 and 5 million instructions.
TEST(GdbBackwardLinesTest, LongLoopsTakeNoTime) {
  const Recorded recorded({Program("one_line_loops"), "300000"});
  const GdbResult gdb = RunGdb(
      recorded.trace(), absl::Substitute(R"(
break $0
continue
python
import time
def back_to(wanted):
    start = time.time()
    while line() != wanted:
        run("reverse-next")
    return time.time() - start
say("calls", back_to($1))
say("plain", back_to($2))
end
)",
                                         Line("one_line_loops.c", "before the recursion"),
                                         LineOf("one_line_loops.c", "// before the calling loop"),
                                         LineOf("one_line_loops.c", "// before the plain loop")));
  for (const char* tag : {"calls", "plain"}) {
    double seconds = 0;
    ASSERT_TRUE(absl::SimpleAtod(gdb.Answer(tag), &seconds)) << gdb.text;
    // On an idle machine 0.1; instruction by instruction minutes.
    EXPECT_LT(seconds, 10) << tag;
  }
}

// A place that is jumped to from afar is left backward as gdb does it.
TEST(GdbBackwardLinesTest, LongjmpIsWalkedAsGdbDoes) {
  const Recorded recorded({Program("one_line_loops"), "20"});
  const std::string from = Line("one_line_loops.c", "end");
  ExpectSameWalk(recorded, from, "reverse-next", 9);
}

}  // namespace
}  // namespace hindsight::e2e
