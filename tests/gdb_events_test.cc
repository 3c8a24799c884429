// What happens to processes, caught in gdb in both directions: forks, execs, system calls, signals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

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
say("end", run("continue"))
say("back", run("reverse-continue"))
threads()
for thread in gdb.selected_inferior().threads():
    thread.switch()
    if "executes" in functions(): say("instruction", instruction())
run("continue")
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
  EXPECT_EQ(gdb.Answer("back"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("instruction"), "syscall") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("second life"), "breakpoint 2 argc 3") << gdb.text;
  EXPECT_EQ(gdb.Answer("first life"), "breakpoint 3 in executes") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads before"), "3") << gdb.text;
}

// As strace shows them, with paths and data as they were at the call.
TEST(GdbEventsTest, SystemCallsAreDecoded) {
  const Recorded recorded({"/bin/sh", "-c", "echo hello > /dev/null; cat /nonexistent/file || :"});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
catch syscall openat
python
while run("continue") != "other": pass
here = when()
gdb.execute("hindsight events 1000 syscall")
say("same place", when() == here)
end
)");
  // The loader's, caught at entry and return, and listed.
  const std::string call = "openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY|O_CLOEXEC)";
  EXPECT_THAT(gdb.text, HasSubstr("hindsight: " + call + "\n"));
  EXPECT_THAT(gdb.text, HasSubstr("hindsight: " + call + " = 3\n"));
  EXPECT_THAT(gdb.text, HasSubstr(": " + call + " = 3\n"));
  EXPECT_THAT(gdb.text,
              HasSubstr("openat(AT_FDCWD, \"/dev/null\", O_WRONLY|O_CREAT|O_TRUNC, 0666)"));
  EXPECT_THAT(gdb.text, HasSubstr("write(1, \"hello\\n\", 6) = 6"));
  EXPECT_EQ(gdb.Answer("same place"), "True");
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
say("entries", [stop[1] for stop in forward].count("61"))  # its number, still in rax
say("same places", backward == forward[::-1])
again = caught("continue")
say("again", again == forward)
end
)");
  EXPECT_EQ(gdb.Answer("stops"), "8") << gdb.text;  // four calls
  EXPECT_EQ(gdb.Answer("entries"), "4") << gdb.text;
  EXPECT_EQ(gdb.Answer("same places"), "True") << gdb.text;
  // gdb knows which of the two each stop is, on both ways.
  for (const char* stop : {"(call to syscall wait4)", "(returned from syscall wait4)"}) {
    EXPECT_EQ(Count(gdb.text, stop), 3 * 4) << stop << gdb.text;
  }
  EXPECT_EQ(gdb.Answer("again"), "True") << gdb.text;
}

// A signal that is passed arrives, without a stop, whichever way time runs.
TEST(GdbEventsTest, SignalsPassedDoNotStop) {
  const Recorded recorded({Program("signal_queues")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle all nostop noprint pass
python say("end", run("continue"))
handle SIG34 nostop print pass
handle SIG35 stop print pass
python
say("handling", [gdb.execute("info signals " + name, to_string=True).splitlines()[1].split()[1:4]
                 for name in ("SIG34", "SIG35")])
while (stop := run("reverse-continue")) != "other": say("back", stop + " " + value("handled_count"))
while (stop := run("continue")) != "other": say("forward", stop + " " + value("handled_count"))
end
)");
  EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("handling"), "[['No', 'Yes', 'Yes'], ['Yes', 'Yes', 'Yes']]") << gdb.text;
  EXPECT_THAT(gdb.Answers("back"), ElementsAre("signal SIG35 3", "signal SIG35 2")) << gdb.text;
  EXPECT_THAT(gdb.Answers("forward"), ElementsAre("signal SIG35 2", "signal SIG35 3")) << gdb.text;
  // Two of them, seen on each way.
  EXPECT_EQ(Count(gdb.text, "received signal SIG34"), 2 * 2) << gdb.text;
}

// Stops only for what is asked for; the handlers run in any case. To Python a caught signal is one
// that was received, of a live process too; and `handle all` leaves SIGTRAP out.
TEST(GdbEventsTest, SignalsAreCaughtPassedAndDescribed) {
  const Recorded recorded({Program("signal_kinds")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle all nostop noprint pass
handle SIGTRAP nostop noprint pass
catch signal SIGCHLD
catch signal SIGFPE
python
def info(field): return value("$_siginfo." + field)
say("child", run("continue") + " " + info("_sifields._sigchld.si_status") + " " + info("si_code"))
say("killed", run("continue") + " " + info("_sifields._sigchld.si_status") + " " + info("si_code"))
say("division", run("continue") + " " + info("si_signo") + " in " + function())
say("address", int(info("_sifields._sigfault.si_addr").split()[0], 16) == pc())
say("end", run("continue"))
say("arrived", int(gdb.parse_and_eval("last.si_signo")))
say("back", run("reverse-continue") + " " + info("si_signo"))
end
)");
  EXPECT_EQ(gdb.Answer("child"), "signal SIGCHLD 23 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("killed"), "signal SIGCHLD 9 2") << gdb.text;
  EXPECT_EQ(gdb.Answer("division"), "signal SIGFPE 8 in faults") << gdb.text;
  EXPECT_EQ(gdb.Answer("address"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("arrived"), "11") << gdb.text;  // the last fault
  EXPECT_EQ(gdb.Answer("back"), "signal SIGFPE 8") << gdb.text;
}

// Behind the instruction, as in a live process.
TEST(GdbEventsTest, ATrapHasBeenExecuted) {
  const Recorded recorded({Program("signal_kinds")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle all nostop noprint pass
handle SIGTRAP stop print pass
python
run("continue")
say("before", gdb.execute("x/i $pc - 1", to_string=True).split()[-1])
gdb.execute("reverse-stepi", to_string=True)
say("at", instruction())
end
)");
  EXPECT_EQ(gdb.Answer("before"), "int3") << gdb.text;
  EXPECT_EQ(gdb.Answer("at"), "int3") << gdb.text;
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

// All of it, but for the pid: of the live process, which gdb runs, and of the recorded one.
TEST(GdbEventsTest, ASiginfoIsThatOfTheLiveProcess) {
  constexpr char kScript[] = R"(
handle all stop print pass
handle SIGTRAP nostop
python
def siginfo():
    text = gdb.execute("p/x $_siginfo", to_string=True).split("=", 1)[1].strip()
    # A fault has an address there, half of which may be the same number.
    if int(gdb.parse_and_eval("$_siginfo.si_code")) > 0: return text
    return text.replace(hex(gdb.selected_inferior().pid) + ",", "PID,")
while run("continue").startswith("signal"): say("signal", siginfo())
end
)";
  for (const char* program : {"signal_queues", "faults"}) {
    const GdbResult live = RunGdbOnProgram({Program(program)}, kScript);
    const Recorded recorded({Program(program)});
    const GdbResult replayed = RunGdb(recorded.trace(), kScript);
    EXPECT_GT(live.Answers("signal").size(), 3u) << live.text;
    EXPECT_EQ(replayed.Answers("signal"), live.Answers("signal")) << replayed.text;
  }
}

// By the program that a process executed last; all that it has there is its own.
TEST(GdbEventsTest, AProcessIsChosenByItsName) {
  const Recorded recorded({"/bin/sh", "-c", "/bin/echo heard; /bin/true; exit 3"});
  const std::string script = R"(
catch exec
python
say("end", run("continue"))
say("program", gdb.selected_inferior().progspace.filename)
end
)";
  const GdbResult gdb = RunGdb(recorded.trace(), script, {"-p", "echo"});
  EXPECT_EQ(gdb.Answer("end"), "breakpoint 1") << gdb.text;
  EXPECT_THAT(gdb.Answer("program"), testing::EndsWith("/echo")) << gdb.text;
  const GdbResult none = TryGdb(recorded.trace(), script, {"-p", "nobody"});
  EXPECT_EQ(none.child.Ending(), "exit 1") << none.text;
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
