// --ring-pool=thread: a thread that records much does not push out what a quiet one recorded long
// ago, and what is shown of that time is what was, or nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kRounds = 3200;         // 200 MB
constexpr int kTicks = kRounds / 16;  // of the quiet thread
uint64_t Most() { return (Engine() == TestedEngine::kTranslate ? 48u : 16u) << 20; }

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

// Where the functions are that the scripts use: what is known of a variable, and of all that Tick
// can see; and how far back Tick can be seen.
constexpr char kScript[] = R"(
python
def known(expression):
    try:
        return int(gdb.parse_and_eval(expression))
    except gdb.MemoryError:
        return None
def check_tick():
    """Whether all that is known in Tick's first state is true; and what was known."""
    n = known("n")
    truth = {"quiet_ticks.value": [n - 1], "quiet_sum.value": [8 * n * (n - 1)],
             "busy_rounds.value": BUSY, "unseen_rounds.value": [16 * n]}
    seen = {name: known(name) for name in truth}
    wrong = [name for name in truth if seen[name] is not None and seen[name] not in truth[name]]
    return n, wrong, [name for name in truth if seen[name] is not None]
gdb.execute("hindsight goto end")
gdb.execute("break Tick")
ticks, wrongs, knowns = [], [], set()
while True:
    if run("reverse-continue") == "other":
        break
    n, wrong, seen = check_tick()
    ticks.append(n)
    wrongs += ["%s at %d" % (name, n) for name in wrong]
    knowns |= set(seen)
gdb.execute("delete")
say("first", ticks[-1])
say("all", ticks == list(range(ticks[0], ticks[-1] - 1, -1)))
say("newest", ticks[0])
say("wrong", wrongs)
say("known", sorted(knowns))
end
)";

class RingPoolTest : public ::testing::Test {
 protected:
  Child StartProgram(const std::string& pool, const std::vector<std::string>& program,
                     int nice = 0) {
    fs::remove_all(trace_);
    std::vector<std::string> argv = RecordCommand();
    argv.insert(argv.end(), {"--quiet", "-o", trace_, absl::StrCat("--ring=", Most() >> 20, "M"),
                             "--ring-pool=" + pool, absl::StrCat("--nice=", nice), "--"});
    argv.insert(argv.end(), program.begin(), program.end());
    return Child::Start(argv, {.timeout = absl::Seconds(300)});
  }
  Child Start(const std::string& pool, int rounds, int nice = 0) {
    return StartProgram(pool, {Runfile("tests/ring/quiet"), absl::StrCat(rounds)}, nice);
  }
  void Record(const std::string& pool) {
    Child child = Start(pool, kRounds);
    const ChildResult result = child.Finish();
    EXPECT_EQ(result.Ending(), "exit 0") << result.err;
    EXPECT_LE(BytesIn(trace_), Most());
    ExpectExact(trace_);
  }
  // Goes back through all calls of Tick, and looks at them. What the busy thread has written since
  // the quiet one looked last, or began its segment, the quiet one finds when it looks again; but a
  // recorder that emulates compares what a thread uses at each of its system calls.
  GdbResult GoBack() {
    const bool compares = Engine() == TestedEngine::kEmulate;
    const std::string busy = compares ? "[16 * n]" : "range(16 * n - 16, 16 * n + 1)";
    return RunGdb(trace_, absl::StrReplaceAll(kScript, {{"BUSY", busy}}));
  }

  TempDir directory_;
  const std::string trace_ = directory_.File("trace");
};

TEST_F(RingPoolTest, TheQuietThreadReachesFurtherBack) {
  Record("process");
  const GdbResult process = GoBack();
  Record("thread");
  const GdbResult thread = GoBack();
  EXPECT_EQ(process.Answer("newest"), absl::StrCat(kTicks)) << process.text;
  EXPECT_EQ(thread.Answer("newest"), absl::StrCat(kTicks)) << thread.text;
  EXPECT_EQ(process.Answer("all"), "True") << process.text;
  EXPECT_EQ(thread.Answer("all"), "True") << thread.text;
  EXPECT_GT(std::atoi(process.Answer("first").c_str()), kTicks / 2);
  EXPECT_EQ(thread.Answer("first"), "1");
  EXPECT_EQ(process.Answer("wrong"), "[]");
  EXPECT_EQ(thread.Answer("wrong"), "[]");
  // In the old part these are what the thread has seen itself.
  EXPECT_THAT(thread.Answer("known"), HasSubstr("busy_rounds.value"));
  EXPECT_THAT(RunHindsight({"info", trace_}).out,
              HasSubstr("; has all threads from full keyframe"));
}

// Values are what the program computed, or not there: each in a page of its own, which Tick has
// seen or has not.
TEST_F(RingPoolTest, MemoryOfTheOldPartIsTrueOrUnavailable) {
  Record("thread");
  const GdbResult gdb = RunGdb(trace_, R"(
python
def known(expression):
    try:
        return int(gdb.parse_and_eval(expression))
    except gdb.MemoryError:
        return None
say("said", "missing: " in gdb.execute("hindsight goto start", to_string=True))
say("threads", len(gdb.selected_inferior().threads()))
maps = gdb.execute("monitor maps", to_string=True)
say("maps", "[stack]" in maps and "/quiet" in maps)
say("listed", gdb.execute("monitor threads", to_string=True).count("missing here"))
say("when", gdb.execute("monitor when", to_string=True).strip())
gdb.execute("break Tick")
run("continue")
run("continue")
n = known("n")
say("n", n)
run("finish")
say("ticks", known("quiet_ticks.value") == n)
say("sum", known("quiet_sum.value") == 8 * n * (n + 1))
say("busy", known("busy_rounds.value") == 16 * n)
say("unseen", known("unseen_rounds.value"))
say("libraries", "libc" in gdb.execute("info sharedlibrary", to_string=True))
gdb.execute("delete")
gdb.execute("watch quiet_ticks.value")
run("reverse-continue")
say("writer", gdb.selected_frame().name())
say("old", known("quiet_ticks.value") == n - 1)
run("continue")
say("new", known("quiet_ticks.value") == n)
gdb.execute("delete")
registers = all_registers()
for i in range(100):
    gdb.execute("reverse-stepi", to_string=True)
say("other", all_registers() != registers)
for i in range(100):
    gdb.execute("stepi", to_string=True)
say("same", all_registers() == registers)
# The thread that writes it is missing: it has changed where this one saw that, or somewhere in a
# part where nobody knew it.
gdb.execute("watch *(long*)&busy_rounds")
seen = run("reverse-continue")
value = known("busy_rounds.value")
say("busy watched", value is None or (seen != "other" and 0 <= value < 16 * n) or (seen, value))
gdb.execute("delete")
gdb.execute("hindsight goto end")
say("crossing", run("reverse-continue"))
say("at start", "0%" in gdb.execute("monitor when", to_string=True))
say("forward", run("continue"))
end
)");
  EXPECT_EQ(gdb.Answer("said"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("maps"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("listed"), "1") << gdb.text;
  EXPECT_THAT(gdb.Answer("when"), HasSubstr("0%")) << gdb.text;
  EXPECT_EQ(gdb.Answer("n"), "2") << gdb.text;
  EXPECT_EQ(gdb.Answer("ticks"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("sum"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("busy"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("unseen"), "None") << gdb.text;
  EXPECT_EQ(gdb.Answer("libraries"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("writer"), "Tick") << gdb.text;
  EXPECT_EQ(gdb.Answer("old"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("new"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("other"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("busy watched"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("at start"), "True") << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("this part of the recording has not all threads (missing: "));
}

// A core of the old part says what it has not, and a debugger that knows nothing of that opens it.
TEST_F(RingPoolTest, ACoreOfTheOldPartSaysWhichThreadsAreMissing) {
  Record("thread");
  const std::string missing = "has not all threads (missing: ";
  const std::string core = directory_.File("core"), monitors = directory_.File("monitors.core");
  const ChildResult written = RunHindsight({"core", trace_, "start", "-o", core});
  EXPECT_EQ(written.Ending(), "exit 0");
  EXPECT_THAT(written.err, HasSubstr(missing));
  EXPECT_THAT(written.out, HasSubstr("1 thread,"));
  const std::string look =
      "python say('registers', sorted(item for item in all_registers().items() if item[0] != "
      "'orig_rax'))";
  const GdbResult server =
      RunGdb(trace_, absl::StrCat("hindsight goto start\nmonitor core ", monitors, "\n", look));
  EXPECT_THAT(server.text, HasSubstr(missing));
  EXPECT_THAT(server.Answer("registers"), HasSubstr("rip"));
  for (const std::string& file : {core, monitors}) {
    EXPECT_THAT(ReadFile(file), HasSubstr(missing)) << file;
    const GdbResult gdb = RunGdbOnCore(
        Runfile("tests/ring/quiet"), file,
        {"source " + Runfile("tests/harness/prelude.py"), look,
         "python say('threads', len(gdb.selected_inferior().threads()))", "info threads"});
    EXPECT_EQ(gdb.Answer("threads"), "1") << gdb.text;
    EXPECT_EQ(gdb.Answer("registers"), server.Answer("registers")) << gdb.text;
    EXPECT_THAT(gdb.text, Not(HasSubstr("not a core"))) << gdb.text;
  }
  const std::string whole = directory_.File("whole");
  const ChildResult end = RunHindsight({"core", trace_, "end", "-o", whole});
  EXPECT_THAT(end.err, Not(HasSubstr("missing")));
  EXPECT_THAT(ReadFile(whole), Not(HasSubstr(missing)));
  // Of a full keyframe there only the memory map is left to compare.
  const std::string dropped = "its memory was dropped";
  EXPECT_THAT(RunHindsight({"diff", trace_, "start", "end"}).err, HasSubstr(dropped));
  EXPECT_THAT(RunHindsight({"diff", trace_, "end", "end"}).err, Not(HasSubstr(dropped)));
}

TEST_F(RingPoolTest, OpensWhereverTheRecorderWasKilled) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 6; ++trial) {
    // Some write later than they would.
    Child child = Start("thread", 1'000'000, /*nice=*/trial % 4 == 1 ? 5 : 0);
    ASSERT_TRUE(child.WaitForFile(trace_ + "/manifest")) << child.err();
    usleep(500'000 + random() % 1'000'000);
    for (int look = 0; look < (trial % 3 == 0 ? 3 : 0); ++look) {
      const ChildResult live = RunHindsight({"verify", trace_});
      EXPECT_THAT(live.out, StartsWith("exact: ")) << live.out << live.err;
    }
    child.Signal(SIGKILL);
    child.Finish();
    EXPECT_LE(BytesIn(trace_), Most());
    const ChildResult verify = RunHindsight({"verify", trace_});
    EXPECT_THAT(verify.out, StartsWith("exact: ")) << verify.out << verify.err;
  }
}

// Threads that come and go, one that waits all the time, and a process that has ended.
TEST_F(RingPoolTest, ThreadsAndProcessesThatEndAreBoundedAsWell) {
  Child child = StartProgram("thread", {Runfile("tests/ring/churn"), "3", "300", "0", "child"});
  const ChildResult result = child.Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_LE(BytesIn(trace_), Most());
  ExpectExact(trace_);
  const GdbResult gdb = RunGdb(trace_, R"(
python
say("end", run("continue"))
say("start", run("reverse-continue"))
say("first", ", 0%" in gdb.execute("monitor when", to_string=True))
say("threads", gdb.execute("monitor threads", to_string=True).count("missing here") > 0)
say("again", run("continue"))
end
)");
  EXPECT_EQ(gdb.Answer("first"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("threads"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), "other") << gdb.text;
}

// Processes that have ended go as a whole, also while they are looked at.
TEST_F(RingPoolTest, ProcessesThatGoWhileTheyAreReadAreLeftOut) {
  const std::string program =
      absl::StrCat("while :; do ", Runfile("tests/ring/churn"), " 1 20 0; done");
  Child child = StartProgram("thread", {"/bin/sh", "-c", program});
  ASSERT_TRUE(child.WaitForFile(trace_ + "/manifest")) << child.err();
  usleep(3'000'000);  // some have gone by then
  for (int look = 0; look < 4; ++look) {
    const ChildResult live = RunHindsight({"verify", trace_});
    EXPECT_EQ(live.Ending(), "exit 0") << live.out << live.err;
    const ChildResult info = RunHindsight({"info", trace_});
    EXPECT_EQ(info.Ending(), "exit 0") << info.out << info.err;
    EXPECT_THAT(info.out, Not(HasSubstr("no such file"))) << info.out;
  }
  child.Signal(SIGKILL);
  child.Finish();
  const ChildResult verify = RunHindsight({"verify", trace_});
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
}

TEST_F(RingPoolTest, WhatHasNoMeaningIsRefused) {
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-o", trace_, "--", "true"});
    const ChildResult result = RunHindsight(arguments);
    EXPECT_EQ(result.Ending(), "exit 2");
    return result.err;
  };
  EXPECT_THAT(error({"record", "--ring=10min", "--ring-pool=thread"}), HasSubstr("divides a size"));
  EXPECT_THAT(error({"record", "--ring=20", "--ring-pool=thread"}), HasSubstr("divides a size"));
  EXPECT_THAT(error({"record", "--ring-pool=thread"}), HasSubstr("--ring-pool is of a --ring"));
  EXPECT_THAT(error({"record", "--ring=1G", "--ring-pool=x"}),
              HasSubstr("one for each \"thread\""));
  EXPECT_THAT(error({"snap", "--ring=20", "--ring-pool=thread"}),
              HasSubstr("a snapshot is of all threads"));
}

}  // namespace
}  // namespace hindsight::e2e
