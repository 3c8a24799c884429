// What happens to processes, caught in gdb in both directions: forks, execs, system calls, signals.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Runs to the end and back; what was caught on each way.
constexpr char kBothWays[] = R"(
python
def caught(command):
    stops = []
    while len(stops) < 200 and (stop := run(command)) != "other": stops.append(stop)
    return stops
forward, backward = caught("continue"), caught("reverse-continue")
say("forward", len(forward))
say("symmetric", backward == forward[::-1])
end
)";

TEST(GdbEventsTest, ForksBothWays) {
  const Recorded recorded({Program("fork_server")});
  const GdbResult gdb = RunGdb(recorded.trace(), absl::StrCat(R"(
handle SIGCHLD nostop noprint pass
catch fork
)",
                                                              kBothWays));
  EXPECT_EQ(gdb.Answer("forward"), "6") << gdb.text;
  EXPECT_EQ(gdb.Answer("symmetric"), "True") << gdb.text;
}

TEST(GdbEventsTest, VforksBothWays) {
  const Recorded recorded({Program("vfork_exec")});
  const GdbResult gdb = RunGdb(recorded.trace(), absl::StrCat(R"(
handle SIGCHLD nostop noprint pass
catch vfork
)",
                                                              kBothWays));
  EXPECT_EQ(gdb.Answer("forward"), "3") << gdb.text;
  EXPECT_EQ(gdb.Answer("symmetric"), "True") << gdb.text;
}

TEST(GdbEventsTest, ExecIsCaught) {
  const Recorded recorded({Program("thread_exec")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
catch exec
python
say("exec", run("continue"))
say("threads", len(threads()))
end
break main
python
say("second life", run("continue") + " argc " + value("argc"))
gdb.execute("delete")
gdb.execute("break executes")
say("first life", run("reverse-continue") + " in " + function())
say("threads before", len(threads()))
end
)");
  EXPECT_EQ(gdb.Answer("exec"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("second life"), "breakpoint 2 argc 3") << gdb.text;
  EXPECT_EQ(gdb.Answer("first life"), "breakpoint 3 in executes") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads before"), "3") << gdb.text;
}

TEST(GdbEventsTest, SystemCallsAreCaughtAtEntryAndReturnBothWays) {
  const Recorded recorded({Program("pipeline")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle SIGCHLD nostop noprint pass
catch syscall wait4
python
def here(): return (pc(), value("$rax"), when())
def caught(command):
    stops = []
    while len(stops) < 200 and run(command) != "other": stops.append(here())
    return stops
forward, backward = caught("continue"), caught("reverse-continue")
say("stops", len(forward))
say("entries", sum(int(stop[1]) == -38 for stop in forward))
say("backward", len(backward))
again = caught("continue")
say("again", again == forward)
end
)");
  EXPECT_EQ(gdb.Answer("stops"), "8") << gdb.text;  // four calls
  EXPECT_EQ(gdb.Answer("backward"), "8") << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), "True") << gdb.text;
}

// Stops only for what is asked for; the handlers run in any case.
TEST(GdbEventsTest, SignalsAreCaughtPassedAndDescribed) {
  const Recorded recorded({Program("signal_kinds")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle all nostop noprint pass
catch signal SIGCHLD
catch signal SIGFPE
python
def info(field): return value("$_siginfo." + field)
say("child", run("continue") + " " + info("_sifields._sigchld.si_status") + " " + info("si_code"))
say("killed", run("continue") + " " + info("_sifields._sigchld.si_status") + " " + info("si_code"))
say("division", run("continue") + " " + info("si_signo") + " in " + function())
say("address", int(gdb.parse_and_eval("(unsigned long)$_siginfo._sifields._sigfault.si_addr")) == pc())
say("end", run("continue"))
say("arrived", int(gdb.parse_and_eval("last.si_signo")))
say("back", run("reverse-continue") + " " + info("si_signo"))
end
)");
  EXPECT_EQ(gdb.Answer("child"), "breakpoint 1 23 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("killed"), "breakpoint 1 9 2") << gdb.text;
  EXPECT_EQ(gdb.Answer("division"), "breakpoint 2 8 in faults") << gdb.text;
  EXPECT_EQ(gdb.Answer("address"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("arrived"), "11") << gdb.text;  // the last fault
  EXPECT_EQ(gdb.Answer("back"), "breakpoint 2 8") << gdb.text;
}

TEST(GdbEventsTest, QueuedSignalsShowTheirValues) {
  const Recorded recorded({Program("signal_queues")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle all stop print pass
python
def collect_values(command):
    values = []
    while run(command).startswith("signal"):
        values.append(int(gdb.parse_and_eval("$_siginfo._sifields._rt.si_sigval.sival_int")))
    return values
forward = collect_values("continue")
say("forward", forward)
say("backward", collect_values("reverse-continue") == forward[::-1])
end
)");
  EXPECT_EQ(gdb.Answer("forward"), "[4, 6, 2, 5, 1, 3]") << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), "True") << gdb.text;
}

// The child's own recording; memory that it never touched is its parent's.
TEST(GdbEventsTest, AChildIsReplayedByItself) {
  const Recorded recorded({Program("big_fork")});
  const std::string script = R"gdb(
break sum
python
say("hit", run("continue") + " in " + function())
say("parent's", value("*(unsigned*)(memory + 10 * 4096 + 64)"))
say("untouched", value("*(unsigned*)(memory + 7 * 4096 + 64)"))
say("forked", "main" in functions())
say("begin", run("reverse-continue"))
end
)gdb";
  const std::vector<std::string> children = ChildProcesses(recorded.trace());
  ASSERT_EQ(children.size(), 1u);
  const GdbResult gdb = RunGdb(recorded.trace(), script, {"-p", children[0]});
  EXPECT_EQ(gdb.Answer("hit"), "breakpoint 1 in sum") << gdb.text;
  EXPECT_EQ(gdb.Answer("parent's"), std::to_string(1u + 10 * 2654435761u)) << gdb.text;
  EXPECT_EQ(gdb.Answer("untouched"), std::to_string(1u + 7 * 2654435761u)) << gdb.text;
  EXPECT_EQ(gdb.Answer("forked"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("begin"), "other") << gdb.text;
}

}  // namespace
}  // namespace hindsight::e2e
