// Recordings of a part of a run: attached later, between two places, or ended early. The program
// must not notice, and what is recorded must be exact.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/test_seed.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

// attach_me, running; it ends when its standard input does, and then checks itself.
class Running {
 public:
  Running() : child_(Child::Start({Program("attach_me"), directory_.File("steps")}, Options())) {
    size_t position = 0;
    EXPECT_TRUE(child_.WaitForOut("running\n", &position));
  }

  std::string pid() const { return std::to_string(child_.pid()); }
  void ExpectEndsProperly() {
    const ChildResult result = child_.Finish();
    EXPECT_EQ(result.Ending(), "exit 8") << result.err;
    EXPECT_EQ(result.out, "running\nended properly\n");
    EXPECT_EQ(result.err, "");
    // Every step once.
    const std::string steps = ReadFile(directory_.File("steps"));
    std::string expected;
    const auto count = std::count(steps.begin(), steps.end(), '\n');
    for (int i = 1; i <= count; ++i) absl::StrAppend(&expected, "step ", i, "\n");
    EXPECT_EQ(steps, expected);
  }

 private:
  static ChildOptions Options() {
    ChildOptions options;
    options.keep_input_open = true;
    return options;
  }

  TempDir directory_;
  Child child_;
};

// Until there is something in the trace.
void WaitForTrace(const std::string& trace) {
  while (RunHindsight({"verify", trace}).Ending() != "exit 0") {
  }
}

// In the order in which they were made, the first thread first.
std::vector<pid_t> ThreadsOf(pid_t process) {
  std::vector<pid_t> threads;
  const std::string directory = absl::StrCat("/proc/", process, "/task");
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    threads.push_back(std::stoi(entry.path().filename()));
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

TEST(AttachTest, RecordsARunningProgramAndLetsGoOfIt) {
  for (int i = 0; i < Recordings() && !HasFailure(); ++i) {
    const TempDir directory;
    const std::string trace = directory.File("trace");
    Running running;
    const ChildResult record =
        RunHindsight({"record", "-o", trace, "--attach=" + running.pid(), "--duration=700ms"});
    EXPECT_EQ(record.Ending(), "exit 0") << record.err;
    running.ExpectEndsProperly();
    ExpectExact(trace);
    const GdbResult gdb = RunGdb(trace, R"(
python
say("names", " ".join(sorted(threads().values())))
gdb.execute("break work_unit")
say("hit", run("continue") + " in " + thread_name())
say("stack", "computes" in functions())
gdb.execute("delete")
say("end", run("continue"))
say("begin", run("reverse-continue"))
end
)");
    EXPECT_EQ(gdb.Answer("names"), "attach_me computes sleeps waits") << gdb.text;
    EXPECT_EQ(gdb.Answer("hit"), "breakpoint 1 in computes") << gdb.text;
    EXPECT_EQ(gdb.Answer("stack"), "True") << gdb.text;
    EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
    EXPECT_EQ(gdb.Answer("begin"), "other") << gdb.text;
  }
}

TEST(AttachTest, CanBeDoneAgainAndAgain) {
  const TempDir directory;
  Running running;
  for (int i = 0; i < 3; ++i) {
    const std::string trace = directory.File(absl::StrCat("trace", i));
    const ChildResult record =
        RunHindsight({"record", "-o", trace, "--attach=" + running.pid(), "--duration=300ms"});
    EXPECT_EQ(record.Ending(), "exit 0") << record.err;
    ExpectExact(trace);
  }
  running.ExpectEndsProperly();
}

// Ctrl-C and SIGTERM end the recording, not the program.
TEST(AttachTest, SignalsToTheRecorderEndOnlyTheRecording) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TempDir directory;
    const std::string trace = directory.File("trace");
    Running running;
    Child recorder =
        Child::Start({Hindsight(), "record", "-o", trace, "--attach=" + running.pid()});
    WaitForTrace(trace);
    recorder.Signal(signal);
    EXPECT_EQ(recorder.Finish().Ending(), "exit 0");
    EXPECT_EQ(InfoField(trace, "state"), "complete");
    ExpectExact(trace);
    running.ExpectEndsProperly();
  }
}

TEST(AttachTest, RecorderThatIsKilledLeavesAUsableTrace) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  Running running;
  Child recorder = Child::Start({Hindsight(), "record", "-o", trace, "--attach=" + running.pid()});
  WaitForTrace(trace);
  recorder.Signal(SIGKILL);
  recorder.Finish();
  EXPECT_EQ(InfoField(trace, "state"), "interrupted");
  ExpectExact(trace);
  running.ExpectEndsProperly();
}

// Threads that find out when registers and memory do not agree.
Child StartSurvivor() {
  ChildOptions options;
  options.keep_input_open = true;
  Child survivor = Child::Start({Program("survivor")}, options);
  size_t position = 0;
  EXPECT_TRUE(survivor.WaitForOut("running\n", &position));
  return survivor;
}

// At any instant: here at those that random waits lead to, with threads that find out.
TEST(AttachTest, AProgramSurvivesRecordersThatAreKilled) {
  const TempDir directory;
  Child survivor = StartSurvivor();
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 25 * Recordings(); ++i) {
    const std::string trace = directory.File(absl::StrCat("trace", i));
    Child recorder = Child::Start(
        {Hindsight(), "record", "-o", trace, absl::StrCat("--attach=", survivor.pid())});
    const timespec moment = {0, static_cast<long>(random() % 200'000'000)};
    nanosleep(&moment, nullptr);
    recorder.Signal(SIGKILL);
    recorder.Finish();
    ASSERT_EQ(kill(survivor.pid(), 0), 0);
  }
  const ChildResult result = survivor.Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_EQ(result.out, "running\nended properly\n");
}

// The thread that takes the signal was about to execute a single step.
TEST(AttachTest, AStoppedProgramSurvivesARecorderThatIsKilled) {
  const TempDir directory;
  Child survivor = StartSurvivor();
  const std::string trace = directory.File("trace");
  Child recorder =
      Child::Start({Hindsight(), "record", "-o", trace, absl::StrCat("--attach=", survivor.pid())});
  WaitForTrace(trace);
  const std::vector<pid_t> threads = ThreadsOf(survivor.pid());
  ASSERT_EQ(threads.size(), 4u);
  syscall(SYS_tgkill, survivor.pid(), threads[1], SIGSTOP);
  siginfo_t stop = {};
  ASSERT_EQ(waitid(P_PID, survivor.pid(), &stop, WSTOPPED), 0);
  recorder.Signal(SIGKILL);
  recorder.Finish();
  survivor.Signal(SIGCONT);
  const ChildResult result = survivor.Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_EQ(result.out, "running\nended properly\n");
  ExpectExact(trace);
}

// With breakpoints in the program: it passes their place once they are removed.
TEST(AttachTest, AProgramSurvivesRecordersThatWaitForAPlaceAndAreKilled) {
  Running running;
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 6; ++i) {
    const TempDir directory;
    Child recorder = Child::Start({Hindsight(), "record", "-o", directory.File("trace"),
                                   "--attach=" + running.pid(), "--start-at=exit"});
    // The last one has had the time to put them there.
    const auto moment = i < 5 ? absl::Milliseconds(random() % 300) : absl::Seconds(2);
    absl::SleepFor(moment);
    recorder.Signal(SIGKILL);
    recorder.Finish();
  }
  // Their end is noticed at once, unless the machine is very busy.
  absl::SleepFor(absl::Milliseconds(500));
  running.ExpectEndsProperly();
}

TEST(AttachTest, NobodyThere) {
  const TempDir directory;
  const ChildResult record = RunHindsight(
      {"record", "-o", directory.File("trace"), "--engine=emulate", "--attach=999999999"});
  EXPECT_EQ(record.Ending(), "exit 125");
  EXPECT_EQ(std::count(record.err.begin(), record.err.end(), '\n'), 1) << record.err;
}

TEST(PartTest, BeginsAndEndsAtFunctions) {
  const std::vector<std::string> flags = {"--start-at=accumulate", "--stop-at=triple"};
  ExpectRecordsUnchanged({Program("steps")}, {}, flags);
  const Recorded recorded({Program("steps")}, {}, {"--start-at=accumulate"});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
python
say("start", function())
gdb.execute("break triple")
say("hit", run("continue") + " in " + function())
say("begin", run("reverse-continue") + " in " + function())
end
)");
  EXPECT_EQ(gdb.Answer("start"), "accumulate") << gdb.text;
  EXPECT_EQ(gdb.Answer("hit"), "breakpoint 1 in triple") << gdb.text;
  EXPECT_EQ(gdb.Answer("begin"), "other in accumulate") << gdb.text;
}

TEST(PartTest, APlaceThatIsNeverReachedIsTold) {
  const TempDir directory;
  const ChildResult record = Record(directory.File("trace"), {Program("hello")}, {},
                                    {"--start-at=no_such_function_anywhere"});
  EXPECT_THAT(record.err, HasSubstr("no_such_function_anywhere"));
}

// The disk is full: here, files may not grow any more. The program runs on; the exit status shows
// that the recording did not.
TEST(PartTest, FullDiskEndsTheRecordingNotTheProgram) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  ChildOptions options;
  options.environment = {"LC_ALL=C"};
  uint64_t state = 1;
  while (options.input.size() < 6'000'000) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    options.input.push_back(static_cast<char>(state >> 40));
  }
  const ChildResult native = RunProcess({"/usr/bin/sha256sum"}, options);
  const ChildResult result =
      RunProcess({"/bin/bash", "-c", "ulimit -f 2500; exec \"$@\"", "bash", Hindsight(), "record",
                  "-o", trace, "--light-keyframe-interval=0", "--", "/usr/bin/sha256sum"},
                 options);
  EXPECT_EQ(native.Ending(), "exit 0");
  EXPECT_EQ(result.Ending(), "exit 125") << result.err;
  EXPECT_EQ(result.out, native.out);
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_GT(std::stoull("0" + InfoField(trace, "instructions")), 1'000'000u);
  ExpectExact(trace);
}

// Nothing can be written for the child, which must not stay stopped for that.
TEST(PartTest, AChildWhoseTraceCannotBeMadeRunsOn) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  const ChildResult result =
      Record(trace, {"/bin/sh", "-c", ": > \"$0\"/processes; /bin/echo child; echo end", trace});
  EXPECT_EQ(result.Ending(), "exit 125") << result.err;
  EXPECT_EQ(result.out, "child\nend\n");
  EXPECT_THAT(result.err, HasSubstr("processes"));
}

// Where the signal finds the program is a matter of chance: hence several times.
TEST(PartTest, SigtermToTheRecorderEndsTheProgramAsItWouldHave) {
  for (int i = 0; i < 6; ++i) {
    const TempDir directory;
    const std::string trace = directory.File("trace");
    Child recorder = Child::Start({Hindsight(), "record", "-o", trace,
                                   i % 3 == 0 ? "--engine=emulate" : "--engine=translate", "--",
                                   Program("ticks")});
    size_t position = 0;
    ASSERT_TRUE(recorder.WaitForOut("tick 3\n", &position)) << recorder.err();
    recorder.Signal(SIGTERM);
    // Whether the program dies of it or runs on unrecorded, both end.
    const std::string ending = recorder.Finish().Ending();
    ASSERT_NE(ending, "timeout");
    EXPECT_EQ(InfoField(trace, "state"), "complete");
    ExpectExact(trace);
  }
}

}  // namespace
}  // namespace hindsight::e2e
