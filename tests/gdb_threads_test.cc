// Recordings of several threads in gdb, both ways.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::string& Crash() {
  static const Recorded* recorded = new Recorded({Program("crash_in_thread")});
  return recorded->trace();
}

const std::string& Names() {
  static const Recorded* recorded = new Recorded({Program("thread_names")});
  return recorded->trace();
}

// Short turns: threads change all the time.
const std::string& ManySwitches() {
  static const Recorded* recorded =
      new Recorded({Program("producers_consumers")}, {}, {"--quantum=2000"});
  return recorded->trace();
}

// `script` with $0 for the line at which a producer stores an item, $1 for a consumer's.
GdbResult RunProducers(const std::string& script) {
  return RunGdb(
      ManySwitches(),
      absl::Substitute(script, LineOf("producers_consumers.c", "slots[tail++ % kSlots] ="),
                       LineOf("producers_consumers.c", "last_of[item / 1000000] =")));
}

// From a crash in one thread to the write of another.
TEST(GdbThreadsTest, WatchpointFindsTheWriteThatAnotherThreadMade) {
  const GdbResult gdb =
      RunGdb(Crash(), absl::Substitute(R"(
python
say("crash", run("continue") + " in " + thread_name())
say("victim", " ".join(functions()[:2]))
say("bad", value("item"))
gdb.execute("watch -l items[13]")
say("found", run("reverse-continue") + " in " + thread_name())
say("line", line() == $0)
say("culprit", " ".join(functions()[:2]))
say("old", value("items[13]") != "0x30")
switch_to("reader")
say("meanwhile", "reader" in functions() and "load" not in functions())
switch_to("writer")
say("same", line() == $0)
say("crash again", run("continue") + " in " + thread_name())
say("watched", value("items[13]"))
end
)",
                                       LineOf("crash_in_thread.c", "the bad write")));
  EXPECT_EQ(gdb.Answer("crash"), "signal SIGSEGV in reader") << gdb.text;
  EXPECT_EQ(gdb.Answer("victim"), "load reader") << gdb.text;
  EXPECT_THAT(gdb.Answer("bad"), HasSubstr("0x30")) << gdb.text;
  EXPECT_EQ(gdb.Answer("found"), "breakpoint 1 in writer") << gdb.text;
  EXPECT_EQ(gdb.Answer("line"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("culprit"), "store writer") << gdb.text;
  EXPECT_EQ(gdb.Answer("meanwhile"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("crash again"), "breakpoint 1 in writer") << gdb.text;
  EXPECT_THAT(gdb.Answer("watched"), HasSubstr("0x30")) << gdb.text;
}

// Each write once, by its writer, in both directions; the reader's loads and the kernel are none.
TEST(GdbThreadsTest, WatchpointStopsAreTheSameBothWays) {
  const GdbResult gdb = RunGdb(Crash(), R"(
break main
continue
delete
watch stored
python
forward = []
while (stop := run("continue")).startswith("breakpoint"):
    forward.append((thread_name(), value("stored")))
say("end", stop)
say("forward", " ".join(v for _, v in forward))
say("writers", {name for name, _ in forward})
backward = []
while run("reverse-continue").startswith("breakpoint"):
    backward.append((thread_name(), value("stored")))
say("backward", " ".join(v for _, v in backward))
say("writers backward", {name for name, _ in backward})
end
)");
  EXPECT_EQ(gdb.Answer("end"), "signal SIGSEGV") << gdb.text;
  EXPECT_EQ(gdb.Answer("forward"), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20")
      << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), "19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0")
      << gdb.text;
  EXPECT_EQ(gdb.Answer("writers"), "{'writer'}") << gdb.text;
  EXPECT_EQ(gdb.Answer("writers backward"), "{'writer'}") << gdb.text;
}

// What the kernel stores as a thread ends is seen in its last state, whoever looks there first.
// (Where no recorder stops the threads, it is seen by who looks there first.)
TEST(GdbThreadsTest, TheEndOfAThreadClearsItsIdThere) {
  if (Engine() == TestedEngine::kTranslate) GTEST_SKIP();
  const Recorded recorded({Program("id_at_end")}, {}, {"--quantum=20000"});
  EXPECT_EQ(recorded.run().out, "it has ended\n") << recorded.run().err;
  ExpectExact(recorded.trace());
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break main
continue
delete
watch here.word
python
def stop(): return "%s, %s" % (value("here.word"), gdb.selected_thread().ptid[1])
forward, backward = [], []
while run("continue").startswith("breakpoint"): forward.append(stop())
while run("reverse-continue").startswith("breakpoint"): backward.append(stop())
main, made = gdb.selected_inferior().pid, forward[0].split(",")[0]
say("forward", forward == ["%s, %s" % (made, main), "0, %s" % made])
say("backward", backward == ["%s, %s" % (made, made), "0, %s" % main])
say("stops", forward + backward)
end
)");
  EXPECT_EQ(gdb.Answer("forward"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), "True") << gdb.text;
}

TEST(GdbThreadsTest, NamesFollowThePosition) {
  const GdbResult gdb = RunGdb(Names(), R"(
break round_reached
python
def names(): return " ".join(sorted(threads().values()))
say("start", names())
say("first", run("continue") + ": " + names())
say("second", run("continue") + ": " + names())
say("end", run("continue"))
say("back", run("reverse-continue") + ": " + names())
say("back again", run("reverse-continue") + ": " + names())
say("begin", run("reverse-continue") + ": " + names())
end
)");
  EXPECT_EQ(gdb.Answer("start"), "thread_names") << gdb.text;
  EXPECT_EQ(gdb.Answer("first"), "breakpoint 1: thread_names worker 1 worker 2 worker 3")
      << gdb.text;
  EXPECT_EQ(gdb.Answer("second"), "breakpoint 1: renamed thread_names worker 1 worker 3")
      << gdb.text;
  EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "breakpoint 1: renamed thread_names worker 1 worker 3") << gdb.text;
  EXPECT_EQ(gdb.Answer("back again"), "breakpoint 1: thread_names worker 1 worker 2 worker 3")
      << gdb.text;
  EXPECT_EQ(gdb.Answer("begin"), "other: thread_names") << gdb.text;
}

TEST(GdbThreadsTest, EachThreadHasItsStackAndItsVariables) {
  const GdbResult gdb = RunGdb(Names(), R"(
break round_reached
continue
python
stacks = []
for name, number in [("worker 1", 1), ("worker 3", 3), ("worker 2", 2)]:
    switch_to(name)
    frame = gdb.newest_frame()
    while frame.name() != "run": frame = frame.older()
    say("argument", int(frame.read_var("argument")) == number)
    stacks.append(int(frame.read_register("rsp")))
say("stacks", len(set(stacks)))
switch_to("thread_names")
say("main", " ".join(functions()[:2]))
end
thread apply all -q -s -- print $_thread
)");
  EXPECT_THAT(gdb.Answers("argument"), ElementsAre("True", "True", "True")) << gdb.text;
  EXPECT_EQ(gdb.Answer("stacks"), "3") << gdb.text;
  EXPECT_EQ(gdb.Answer("main"), "round_reached main") << gdb.text;
}

// The commands as a user types them. (Threads that run at the same time may start in any order.)
TEST(GdbThreadsTest, ListsBacktracesAndSwitches) {
  const GdbResult gdb = RunGdb(Names(), R"gdb(
break round_reached
continue
python
import re
def listed():
    text = gdb.execute("info threads", to_string=True)
    return re.findall(r'^(\*?) +(\d) +Thread \d+\.\d+ "(.*?)"', text, re.MULTILINE)
say("order", [name for _, _, name in listed()])
say("list", sorted((name, mark) for mark, _, name in listed()))
say("numbers", [number for _, number, _ in listed()])
for number in (3, 4, 2, 1):
    gdb.execute("thread %d" % number, to_string=True)
    text = gdb.execute("bt", to_string=True)
    argument = re.search(r"run \(argument=0x(\d)\)", text)
    name = gdb.selected_thread().name
    as_listed = (str(number), name) in [entry[1:] for entry in listed()]
    say("thread", "%s %s %s" % (name, argument and argument.group(1), as_listed))
say("main", re.findall(r"^#\d .*(round_reached \(round=1\)|main \(\))", text, re.MULTILINE))
gdb.execute("thread 2")
say("moved", [number for mark, number, _ in listed() if mark])
every = gdb.execute("thread apply all bt", to_string=True)
say("every", [len(re.findall(what, every)) for what in (r"run \(argument=", r"main \(\)")])
end
)gdb");
  EXPECT_EQ(gdb.Answer("list"),
            "[('thread_names', '*'), ('worker 1', ''), ('worker 2', ''), ('worker 3', '')]")
      << gdb.text;
  if (Engine() == TestedEngine::kEmulate) {
    EXPECT_EQ(gdb.Answer("order"), "['thread_names', 'worker 1', 'worker 2', 'worker 3']")
        << gdb.text;
  }
  EXPECT_EQ(gdb.Answer("numbers"), "['1', '2', '3', '4']") << gdb.text;
  EXPECT_THAT(gdb.Answers("thread"),
              UnorderedElementsAre("worker 2 2 True", "worker 3 3 True", "worker 1 1 True",
                                   "thread_names None True"))
      << gdb.text;
  EXPECT_EQ(gdb.Answer("main"), "['round_reached (round=1)', 'main ()']") << gdb.text;
  EXPECT_EQ(gdb.Answer("moved"), "['2']") << gdb.text;
  EXPECT_EQ(gdb.Answer("every"), "[3, 1]") << gdb.text;
}

// After commands that made gdb ask about all threads, the last of which was not selected.
TEST(GdbThreadsTest, MonitorCommandsAreAboutTheSelectedThread) {
  const GdbResult gdb = RunGdb(Names(), R"gdb(
break round_reached
continue
python
import re
asked = 0
def thread_of(command):
    return int(re.search(r"thread (\d+)", gdb.execute(command, to_string=True)).group(1))
def check(command):
    global asked
    gdb.execute(command, to_string=True)
    mine = gdb.selected_thread().ptid[1]
    for question in ("monitor when", "hindsight when"):
        if thread_of(question) != mine: say("wrong", command + ": " + question)
    marked = re.search(r"^\* (\d+)", gdb.execute("monitor threads", to_string=True), re.MULTILINE)
    if int(marked.group(1)) != mine: say("wrong", command + ": threads")
    asked += 1
for number in (1, 3, 2, 4):
    check("thread %d" % number)
    for command in ("info threads", "thread apply all -q -- info registers rip", "up",
                    "thread apply 1 3 bt"):
        check(command)
        if command == "up": say("frame", gdb.selected_frame().level())
say("asked", asked)
end
)gdb");
  EXPECT_THAT(gdb.Answers("wrong"), ElementsAre()) << gdb.text;
  EXPECT_THAT(gdb.Answers("frame"), ElementsAre("1", "1", "1", "1")) << gdb.text;
  EXPECT_EQ(gdb.Answer("asked"), "20") << gdb.text;
}

TEST(GdbThreadsTest, ThreadsStartAndEndBothWays) {
  const GdbResult gdb = RunGdb(Names(), R"(
break main
continue
python
say("main", len(threads()))
gdb.execute("delete")
gdb.execute("break round_reached if round == 2")
gdb.execute("break exit")
run("continue")
say("middle", len(threads()))
run("continue")
say("joined", len(threads()))
run("reverse-continue")
say("middle again", len(threads()))
gdb.execute("delete")
run("reverse-continue")
say("begin", len(threads()))
end
)");
  EXPECT_EQ(gdb.Answer("main"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("middle"), "4") << gdb.text;
  EXPECT_EQ(gdb.Answer("joined"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("middle again"), "4") << gdb.text;
  EXPECT_EQ(gdb.Answer("begin"), "1") << gdb.text;
}

TEST(GdbThreadsTest, BreakpointOfOneThread) {
  const GdbResult gdb = RunProducers(R"(
break produce
python
run("continue"); run("continue"); run("continue")
mine, number = gdb.selected_thread().ptid[1], gdb.selected_thread().num
gdb.execute("delete")
gdb.execute("break producers_consumers.c:$0 thread %d" % number)
stops = set()
count = 0
while run("continue").startswith("breakpoint"):
    stops.add(gdb.selected_thread().ptid[1])
    count += 1
    if count == 30: break
say("forward", stops == {mine})
back = 0
while back < 29 and run("reverse-continue").startswith("breakpoint"):
    stops.add(gdb.selected_thread().ptid[1])
    back += 1
say("backward", stops == {mine} and back)
end
)");
  EXPECT_EQ(gdb.Answer("forward"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), "29") << gdb.text;
}

TEST(GdbThreadsTest, SchedulerLockingStopsInOneThreadOnly) {
  const GdbResult gdb = RunProducers(R"(
break produce
python
run("continue"); run("continue")
mine = gdb.selected_thread().ptid[1]
gdb.execute("delete")
gdb.execute("break producers_consumers.c:$0")
gdb.execute("break producers_consumers.c:$1")
gdb.execute("set scheduler-locking on")
locked = {gdb.selected_thread().ptid[1] for _ in range(15) if run("continue") != "other"}
say("locked", locked == {mine})
gdb.execute("set scheduler-locking off")
free = {gdb.selected_thread().ptid[1] for _ in range(60) if run("continue") != "other"}
say("free", len(free) > 1)
gdb.execute("set scheduler-locking on")
mine = gdb.selected_thread().ptid[1]
back = {gdb.selected_thread().ptid[1] for _ in range(15) if run("reverse-continue") != "other"}
say("back", back == {mine})
end
)");
  EXPECT_EQ(gdb.Answer("locked"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("free"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "True") << gdb.text;
}

// Over many switches of threads: back is forward reversed.
TEST(GdbThreadsTest, ContinuingBackMeetsTheSameStopsInReverse) {
  const GdbResult gdb = RunProducers(R"(
break producers_consumers.c:$0
break producers_consumers.c:$1
python
def here(): return (gdb.selected_thread().ptid[1], value("tail"), value("taken"), when())
forward = []
while run("continue").startswith("breakpoint") and len(forward) < 200: forward.append(here())
backward = []
while run("reverse-continue").startswith("breakpoint"): backward.append(here())
expected = list(reversed(forward))
say("switches", len({stop[0] for stop in forward}) > 1)
say("same", backward[-len(expected):] == expected)
end
)");
  EXPECT_EQ(gdb.Answer("switches"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
}

// The steps are the selected thread's; whatever others did in between happens, and is undone, too.
TEST(GdbThreadsTest, SteppingBackOverSwitchesOfThreads) {
  const GdbResult gdb = RunGdb(ManySwitches(), R"(
break produce
python
run("continue"); run("continue"); run("continue")
gdb.execute("delete")
states = [(when(), all_registers())]
for _ in range(400):
    gdb.execute("stepi", to_string=True)
    states.append((when(), all_registers()))
me = gdb.selected_thread().ptid[1]
wrong = []
for i in range(399, -1, -1):
    gdb.execute("reverse-stepi", to_string=True)
    if all_registers() != states[i][1] or gdb.selected_thread().ptid[1] != me: wrong.append(i)
say("wrong", wrong)
say("distinct", len({state[0] for state in states}))
end
)");
  EXPECT_EQ(gdb.Answer("wrong"), "[]") << gdb.text;
  EXPECT_EQ(gdb.Answer("distinct"), "401") << gdb.text;
}

// A position is one thread's, which is selected then.
TEST(GdbThreadsTest, JumpsSelectTheThreadOfThePosition) {
  const GdbResult gdb = RunProducers(R"(
break producers_consumers.c:$0
break producers_consumers.c:$1
python
def here(): return (gdb.selected_thread().ptid[1], all_registers(), value("sum"))
seen = []
for _ in range(40):
    run("continue")
    seen.append((when().split()[1].rstrip(","), here()))
wrong = []
for where, state in seen[::-3] + seen[::7]:
    gdb.execute("info threads", to_string=True)
    gdb.execute("hindsight goto " + where, to_string=True)
    if here() != state: wrong.append(where)
say("wrong", wrong)
say("threads", len({state[0] for _, state in seen}) > 1)
where, state = seen[20]
gdb.execute("hindsight goto " + where, to_string=True)
# At a breakpoint that gdb has not stopped at before, it says so first.
if run("continue") != "other" and here() == state: run("continue")
say("goes on", here() == seen[21][1])
say("goes back", run("reverse-continue") != "other" and here() == state)
end
)");
  EXPECT_EQ(gdb.Answer("wrong"), "[]") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("goes on"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("goes back"), "True") << gdb.text;
}

TEST(GdbThreadsTest, PositionsOfAllThreadsAreWentTo) {
  const GdbResult gdb = RunProducers(R"(
break producers_consumers.c:$0
break producers_consumers.c:$1
python
import re
def position(): return re.search(r"\b[0-9A-Fa-f]+:[0-9A-Fa-f]+\b", when()).group()
def goto(where):
    gdb.execute("monitor goto " + where)
    gdb.execute("maintenance flush register-cache")
    gdb.execute("info threads", to_string=True)
seen = []
for _ in range(40):
    run("continue")
    seen.append((position(), gdb.selected_thread().ptid[1], all_registers(), value("sum")))
def order(where): return tuple(int(part, 16) for part in where.split(":"))
say("ordered", [order(s[0]) for s in seen] == sorted(order(s[0]) for s in seen))
wrong = 0
for where, thread, registers, total in seen[::-3] + seen[::7]:
    goto(where)
    [t for t in gdb.selected_inferior().threads() if t.ptid[1] == thread][0].switch()
    if (position(), all_registers(), value("sum")) != (where, registers, total): wrong += 1
say("wrong", wrong)
say("threads", len({s[1] for s in seen}) > 1)
end
)");
  EXPECT_EQ(gdb.Answer("ordered"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("wrong"), "0") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads"), "True") << gdb.text;
}

// A thread that has seen the turn pass to it knows what was stored before that: no system call and
// no locked instruction has to be between.
// `most_old`: of the stops, forward and backward, those that may show something older.
void ExpectShownAtOnce(int turns, int threads, size_t most_old) {
  const Recorded recorded({Program("spinning_turns"), absl::StrCat(turns), absl::StrCat(threads)});
  ExpectExact(recorded.trace());
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break stopped
python
def look(tag, command):
    while run(command).startswith("breakpoint"):
        say(tag, value("number") + ": " + " ".join(value("cells[%d].turn" % i) for i in range(8)))
look("forward", "continue")
look("backward", "reverse-continue")
end
)");
  std::vector<std::string> expected;
  std::vector<int> cells(8, 0);
  for (int turn = 1; turn <= turns; ++turn) {
    for (int i = 0; i < 8; ++i) {
      if ((turn * 7 + i * 3) % 5 < 2) cells[i] = turn;
    }
    expected.push_back(absl::StrCat(turn, ": ", absl::StrJoin(cells, " ")));
  }
  std::vector<std::string> backward = gdb.Answers("backward");
  std::reverse(backward.begin(), backward.end());
  const std::vector<std::string> forward = gdb.Answers("forward");
  ASSERT_EQ(forward.size(), expected.size());
  ASSERT_EQ(backward.size(), expected.size());
  size_t old = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    old += forward[i] != expected[i] ? 1 : 0;
    old += backward[i] != expected[i] ? 1 : 0;
  }
  EXPECT_LE(old, most_old) << absl::StrJoin(forward, "\n");
}

TEST(GdbThreadsTest, WhatIsHandedOverByAPlainStoreIsShownAtOnce) { ExpectShownAtOnce(100, 2, 0); }

// What a thread has stored itself may be older than what the one before it has, which has seen what
// a third one stored after it. (Where threads run at the same time, not all of that is known for
// certain: two of 120 stops may show something older, and rarely do. 50 did at first.)
TEST(GdbThreadsTest, WhatThreeHandOverByPlainStoresIsShown) {
  ExpectShownAtOnce(60, 3, Engine() == TestedEngine::kTranslate ? 4 : 0);
}

}  // namespace
}  // namespace hindsight::e2e
