// Records real programs: what they do must not change, and replay must be exact.

#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"
#include "recorder/record_fixture.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

using std::chrono::milliseconds;

// The program whose output this is reports its process and an address.
void StoreOneWhereItSays(const std::string& output) {
  int process = 0;
  uint64_t address = 0;
  while (sscanf(Contents(output).c_str(), "%d %lx\n", &process, &address) != 2) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  unsigned one = 1;
  const iovec from = {&one, sizeof(one)}, to = {reinterpret_cast<void*>(address), sizeof(one)};
  EXPECT_EQ(process_vm_writev(process, &from, 1, &to, 1, 0), 4);
}

TEST_F(RecordTest, OutputAndStatusAreTheProgramsOwn) {
  Record({"sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(output_, "out\n");
  EXPECT_EQ(errors_, "err\n");
  ASSERT_TRUE(WIFEXITED(result_.wait_status));
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 7);
  EXPECT_EQ(result_.end_reason, "");
  ExpectExact();
  auto trace = TraceReader::Open(options_.directory);
  EXPECT_EQ((*trace)->manifest().state, TraceState::kComplete);
  EXPECT_EQ((*trace)->manifest().exit_status, 7 << 8);
  EXPECT_EQ((*trace)->full_keyframes().size(), 1u);
}

TEST_F(RecordTest, ProgramsThatCannotRunWriteNothing) {
  options_.arguments = {"/no/such/program"};
  EXPECT_EQ(RecordProgram(options_).status().code(), absl::StatusCode::kNotFound);
  options_.arguments = {"/"};
  EXPECT_EQ(RecordProgram(options_).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(std::filesystem::exists(options_.directory));
}

TEST_F(RecordTest, ATraceThatCannotBeMadeIsNotTakenForAProgramThatCannotRun) {
  options_.arguments = {"true"};
  for (const char* directory : {"/none/trace", "/proc/trace", "/"}) {
    options_.directory = directory;
    EXPECT_EQ(RecordProgram(options_).status().code(), absl::StatusCode::kUnknown) << directory;
  }
}

TEST_F(RecordTest, DescriptorsAndEnvironmentAreThoseGiven) {
  setenv("RECORD_TEST", "a b", 1);
  Record({"sh", "-c", "echo $RECORD_TEST; for f in /proc/self/fd/*; do echo ${f##*/}; done"});
  EXPECT_EQ(output_, NativeOutput("sh -c 'echo $RECORD_TEST; "
                                  "for f in /proc/self/fd/*; do echo ${f##*/}; done'"));
  ExpectExact();
}

TEST_F(RecordTest, SystemCallsAndSignalsInEachOthersWay) {
  Record({Program("interrupted_calls")});
  EXPECT_EQ(output_, NativeOutput(Program("interrupted_calls")));
  EXPECT_EQ(result_.wait_status, 0);
  ExpectExact();
  EXPECT_GE(Events(EventKind::kSignal).size(), 8u);
}

TEST_F(RecordTest, MemoryComesMovesAndGoes) {
  Record({Program("memory_games")});
  EXPECT_EQ(output_, NativeOutput(Program("memory_games")));
  ExpectExact();
}

// What the kernel stores into a page for one thread while another one writes to it stays.
TEST_F(RecordTest, APageThatTheKernelWritesToWhileAThreadDoes) {
  Record({Program("page_in_use"), "60"});
  EXPECT_EQ(output_, "lost 0 of the kernel's stores, 0 of the thread's\n");
  EXPECT_EQ(result_.wait_status, 0);
  ExpectExact();
}

TEST_F(RecordTest, MemoryThatIsWrittenThroughProcIsSeenAtOnce) {
  for (const char* by : {"self", "child"}) {
    options_.directory = directory_ + "/by_" + by;
    Record({Program("memory_file"), by});
    EXPECT_EQ(output_, "lost 0\n") << by;
    ExpectExact();
    EXPECT_TRUE(Events(EventKind::kMemoryUnknown).empty()) << by;
  }
}

TEST_F(RecordTest, AFileThatIsTruncatedTakesPrivatePagesAlong) {
  const std::string file = directory_ + "/file";
  const std::string native = NativeOutput(Program("truncated_file") + " " + file);
  Record({Program("truncated_file"), file});
  EXPECT_EQ(result_.wait_status, 0) << errors_;
  EXPECT_EQ(output_, native);
  EXPECT_NE(native, "");
  ExpectExact();
}

// Nothing reports a write by a process that is not recorded: it is found by looking now and then,
// or where the page is imported anew, and then nothing is said.
TEST_F(RecordTest, MemoryThatIsWrittenFromOutsideIsSeenSoon) {
  size_t said = 0;
  for (int round = 0; round < 10 && said == 0 && !HasFailure(); ++round) {
    options_.directory = absl::StrCat(directory_, "/round_", round);
    std::filesystem::remove(directory_ + "/out");
    std::thread outside(&StoreOneWhereItSays, directory_ + "/out");
    Record({Program("memory_file"), "outside"});
    outside.join();
    EXPECT_EQ(result_.wait_status, 0);
    ExpectExact();
    said = Events(EventKind::kMemoryUnknown).size();
  }
  EXPECT_EQ(said, 1u);
}

TEST_F(RecordTest, KeyframesChangeNothing) {
  options_.light_keyframe_interval = 20'000;
  options_.full_keyframe_interval = 200'000;
  options_.quantum = 1'000;
  Record({Program("memory_games")});
  EXPECT_EQ(output_, NativeOutput(Program("memory_games")));
  EXPECT_GT(result_.light_keyframes, 10u);
  EXPECT_GE(result_.full_keyframes, 3u);
  ExpectExact();
  EXPECT_EQ(Events(EventKind::kFullKeyframe).size(), result_.full_keyframes);
}

TEST_F(RecordTest, ExecStartsANewImage) {
  Record({"sh", "-c", "exec sh -c 'echo second; exit 4'"});
  EXPECT_EQ(output_, "second\n");
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 4);
  ExpectExact();
  EXPECT_EQ(Events(EventKind::kExec).size(), 1u);
}

TEST_F(RecordTest, ChildrenHaveTracesOfTheirOwn) {
  Record({"sh", "-c", "echo before; (echo child); echo after; exit 5"});
  EXPECT_EQ(output_, "before\nchild\nafter\n");
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 5);
  EXPECT_EQ(result_.end_reason, "");
  EXPECT_EQ(result_.processes, 2u);
  EXPECT_EQ(errors_, "");
  ExpectExact();
  const std::vector<ProcessEvent> forks = Events(EventKind::kFork);
  ASSERT_EQ(forks.size(), 1u);
  const auto processes = ListProcesses(options_.directory, nullptr);
  ASSERT_TRUE(processes.ok()) << processes.status();
  ASSERT_EQ(processes->size(), 2u);
  EXPECT_EQ((*processes)[1].manifest.pid, forks[0].result);
  EXPECT_EQ((*processes)[1].manifest.parent_count + 1, forks[0].count);
}

TEST_F(RecordTest, ChildrenThatAreNotFollowedRunNatively) {
  options_.children = ChildPolicy::kNone;
  Record({"sh", "-c", "echo before; (echo child); echo after; exit 5"});
  EXPECT_EQ(output_, "before\nchild\nafter\n");
  EXPECT_EQ(result_.processes, 1u);
  ExpectExact();
}

TEST_F(RecordTest, OnlyOneProgramOfSeveral) {
  options_.children = ChildPolicy::kOnly;
  options_.only_program = "wc";
  Record({"sh", "-c", "echo one two | wc -w; echo after"});
  EXPECT_EQ(output_, "2\nafter\n");
  EXPECT_EQ(result_.processes, 1u);
  ExpectExact();
  auto trace = TraceReader::Open(options_.directory);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ((*trace)->manifest().arguments, (std::vector<std::string>{"wc", "-w"}));
}

TEST_F(RecordTest, PartOfARun) {
  options_.start_at = "main";
  options_.stop_at = "exit";
  Record({Program("memory_games")});
  EXPECT_EQ(output_, NativeOutput(Program("memory_games")));
  ExpectExact();
  const std::vector<ProcessEvent> gaps = Events(EventKind::kGap);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].text, "has reached exit");
}

TEST_F(RecordTest, RecordingEndsWhereTheTraceIsLargeEnough) {
  options_.max_trace_bytes = 1;
  Record({"sh", "-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; echo $i"});
  EXPECT_EQ(output_, "300\n");
  EXPECT_NE(result_.end_reason, "");
  ExpectExact();
}

// Which each segment imports anew.
TEST_F(RecordTest, SegmentsAreLongerWhereMuchMemoryIsUsed) {
  const std::vector<std::string> program = {
      "perl", "-e",
      "my @a = (1) x 60000; for my $i (1 .. 12) { $_++ for @a; } print \"@a[0, 59999]\""};
  options_.light_keyframe_interval = 1'000'000;
  Record(program);
  const uint64_t fixed = result_.light_keyframes, instructions = result_.instructions;
  EXPECT_GE(fixed, instructions / 1'100'000);
  std::filesystem::remove_all(options_.directory);
  options_.adapt_light_keyframes = true;
  Record(program);
  EXPECT_EQ(output_, "13 13");
  EXPECT_LT(result_.light_keyframes, fixed / 4);
  EXPECT_GE(result_.light_keyframes, instructions / 16'100'000);
  ExpectExact();
}

TEST_F(RecordTest, DeathBySignalIsTheProgramsOwn) {
  Record({"sh", "-c", "kill -USR1 $$"});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGUSR1);
  ExpectExact();
  const std::vector<ProcessEvent> signals = Events(EventKind::kSignal);
  ASSERT_EQ(signals.size(), 1u);
  EXPECT_EQ(signals[0].number, SIGUSR1);
  EXPECT_EQ(signals[0].text.size(), 128u);
}

// What the handlers got is what the kernel gave, so both places must have it to the bit.
TEST_F(RecordTest, SiginfosAreTheKernelsBytesInRecordsAndEvents) {
  options_.children = ChildPolicy::kNone;
  Record({Program("siginfo_bytes")});
  EXPECT_EQ(result_.wait_status, 0);
  std::string in_records, in_events;
  auto trace = TraceReader::Open(options_.directory);
  ASSERT_TRUE(trace.ok()) << trace.status();
  for (const SegmentInfo& info : (*trace)->segments((*trace)->manifest().pid)) {
    const auto segment = (*trace)->LoadSegment(info.thread, info.number);
    ASSERT_TRUE(segment.ok()) << segment.status();
    for (const hindsight::Record& record : (*segment)->records()) {
      if (const auto* jump = std::get_if<Discontinuity>(&record.body)) in_records += jump->siginfo;
    }
  }
  for (const ProcessEvent& event : Events(EventKind::kSignal)) in_events += event.text;
  EXPECT_EQ(output_.size(), 8 * sizeof(siginfo_t));
  EXPECT_EQ(in_records, output_);
  EXPECT_EQ(in_events, output_);
}

// The entry NAME=VALUE of a trace's environment; empty if there is none.
std::string Variable(const std::string& directory, const std::string& name) {
  auto trace = TraceReader::Open(directory);
  EXPECT_TRUE(trace.ok()) << trace.status();
  for (const std::string& entry : (*trace)->manifest().environment) {
    if (entry.starts_with(name + "=")) return entry;
  }
  return "";
}

TEST_F(RecordTest, TheEnvironmentStoredIsThatOfTheProgram) {
  setenv("RECORD_TEST", "a b", 1);
  Record({"env", "-u", "RECORD_TEST", "INNER=1", "sh", "-c", ":; (:)"});
  EXPECT_EQ(Variable(options_.directory, "RECORD_TEST"), "RECORD_TEST=a b");
  const auto processes = ListProcesses(options_.directory, nullptr);
  ASSERT_EQ(processes->size(), 2u);
  EXPECT_EQ(Variable((*processes)[1].directory, "RECORD_TEST"), "");
  EXPECT_EQ(Variable((*processes)[1].directory, "INNER"), "INNER=1");
}

TEST_F(RecordTest, NoEnvironmentIsStoredIfNotWanted) {
  options_.store_environment = false;
  Record({"sh", "-c", ":; (:)"});
  const auto processes = ListProcesses(options_.directory, nullptr);
  ASSERT_EQ(processes->size(), 2u);
  for (const ProcessInfo& process : *processes) EXPECT_TRUE(process.manifest.environment.empty());
}

TEST_F(RecordTest, OfAnAttachedProcessTheEnvironmentIsItsOwn) {
  setenv("RECORD_TEST", "the recorder's", 1);
  const pid_t target = fork();
  if (target == 0) {
    execlp("env", "env", "-i", "TARGET=1", "/bin/sleep", "60", nullptr);
    _exit(127);
  }
  while (!Contents("/proc/" + std::to_string(target) + "/cmdline").starts_with("/bin/sleep")) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  options_.attach_pid = target;
  options_.max_seconds = 0.2;
  Record({});
  kill(target, SIGKILL);
  waitpid(target, nullptr, 0);
  EXPECT_EQ(Variable(options_.directory, "RECORD_TEST"), "");
  EXPECT_EQ(Variable(options_.directory, "TARGET"), "TARGET=1");
}

}  // namespace
}  // namespace hindsight
