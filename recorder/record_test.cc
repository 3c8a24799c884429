// Records real programs: what they do must not change, and replay must be exact.

#include "recorder/record.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "gtest/gtest.h"
#include "keyframes/verify/verify.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

using std::chrono::milliseconds;

// Stands in for a file descriptor of this process while alive.
class Redirection {
 public:
  Redirection(int fd, const std::string& path) : fd_(fd), saved_(fcntl(fd, F_DUPFD_CLOEXEC, 10)) {
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    dup2(file.get(), fd);
  }
  ~Redirection() { dup2(saved_.get(), fd_); }

 private:
  const int fd_;
  UniqueFd saved_;
};

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string Program(const std::string& name) { return "recorder/testdata/" + name; }

class RecordTest : public testing::Test {
 protected:
  RecordTest() {
    // A sanitizer of the program's own would look for leaks at its end, which it cannot do while
    // the program is traced.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    directory_ = testing::TempDir() + "/record_test." + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    options_.directory = directory_ + "/trace";
  }
  ~RecordTest() override { std::filesystem::remove_all(directory_); }

  // Records; what the program printed is in output_.
  void Record(std::vector<std::string> arguments) {
    options_.arguments = std::move(arguments);
    absl::StatusOr<RecordResult> result = absl::UnknownError("not run");
    {
      fflush(stdout);
      Redirection standard_output(STDOUT_FILENO, directory_ + "/out");
      Redirection standard_error(STDERR_FILENO, directory_ + "/err");
      result = RecordProgram(options_);
    }
    output_ = Contents(directory_ + "/out");
    errors_ = Contents(directory_ + "/err");
    ASSERT_TRUE(result.ok()) << result.status();
    result_ = *result;
  }

  std::string NativeOutput(const std::string& command) {
    EXPECT_NE(system((command + " > " + directory_ + "/native").c_str()), -1);
    return Contents(directory_ + "/native");
  }

  // Replays the recording.
  void ExpectExact() {
    auto trace = TraceReader::Open(options_.directory);
    ASSERT_TRUE(trace.ok()) << trace.status();
    auto verified = Verify(**trace);
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_TRUE(verified->exact()) << verified->difference;
    if (result_.processes == 1) {
      EXPECT_EQ(verified->states, result_.instructions);
    }
  }

  std::vector<ProcessEvent> Events(EventKind kind) {
    std::vector<ProcessEvent> events;
    auto trace = TraceReader::Open(options_.directory);
    EXPECT_TRUE(trace.ok()) << trace.status();
    for (const ProcessEvent& event : (*trace)->events()) {
      if (event.kind == kind) events.push_back(event);
    }
    return events;
  }

  std::string directory_;
  RecordOptions options_;
  RecordResult result_;
  std::string output_, errors_;
};

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

// Nothing reports a write by a process that is not recorded: it is found by looking now and then.
TEST_F(RecordTest, MemoryThatIsWrittenFromOutsideIsSeenSoon) {
  std::thread outside([this] {
    int process = 0;
    uint64_t address = 0;
    while (sscanf(Contents(directory_ + "/out").c_str(), "%d %lx\n", &process, &address) != 2) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    unsigned one = 1;
    const iovec from = {&one, sizeof(one)}, to = {reinterpret_cast<void*>(address), sizeof(one)};
    EXPECT_EQ(process_vm_writev(process, &from, 1, &to, 1, 0), 4);
  });
  Record({Program("memory_file"), "outside"});
  outside.join();
  EXPECT_EQ(result_.wait_status, 0);
  ExpectExact();
  EXPECT_EQ(Events(EventKind::kMemoryUnknown).size(), 1u);
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

// Does `act` once the program has printed its first line.
class Bystander {
 public:
  Bystander(std::string output, std::function<void()> act)
      : thread_([output = std::move(output), act = std::move(act)] {
          while (Contents(output).empty()) std::this_thread::sleep_for(milliseconds(1));
          act();
        }) {}
  ~Bystander() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_F(RecordTest, TerminationIsPassedOn) {
  Bystander bystander(directory_ + "/out", [] { kill(getpid(), SIGTERM); });
  Record({"bash", "-c", "trap 'echo caught; exit 3' TERM; echo ready; while :; do :; done"});
  EXPECT_EQ(output_, "ready\ncaught\n");
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 3);
  ExpectExact();
}

TEST_F(RecordTest, StoppedProgramsContinue) {
  Bystander bystander(directory_ + "/out", [this] {
    const pid_t program = std::stoi(Contents(directory_ + "/out"));
    kill(program, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(50));
    kill(program, SIGCONT);
    kill(program, SIGTERM);
  });
  Record({"bash", "-c", "trap 'exit 6' TERM; echo $$; while :; do :; done"});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 6);
  ExpectExact();
}

TEST_F(RecordTest, KilledProgramsEndTheRecording) {
  Bystander bystander(directory_ + "/out",
                      [this] { kill(std::stoi(Contents(directory_ + "/out")), SIGKILL); });
  Record({"bash", "-c", "echo $$; while :; do :; done"});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  ExpectExact();
}

// The kernel keeps the end of the first thread back until the other one has been waited for.
class KilledThreadsTest : public RecordTest, public testing::WithParamInterface<const char*> {};

TEST_P(KilledThreadsTest, EndTheRecording) {
  Bystander bystander(directory_ + "/out", [this] {
    std::this_thread::sleep_for(milliseconds(300));
    kill(std::stoi(Contents(directory_ + "/out")), SIGKILL);
  });
  Record({Program("killed_threads"), GetParam()});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  ExpectExact();
}

INSTANTIATE_TEST_SUITE_P(WhileTheFirst, KilledThreadsTest, testing::Values("computes", "int80"));

// Which processes recording lasts for.

TEST_F(RecordTest, EndsWithTheProgramAndLeavesTheRestAlone) {
  const std::string late = directory_ + "/late";
  Record({"sh", "-c", "{ sleep 1; echo late > " + late + "; } & echo done; exit 4"});
  EXPECT_EQ(output_, "done\n");
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 4);
  EXPECT_EQ(result_.end_reason, "");
  EXPECT_GE(result_.processes_left, 1u);
  EXPECT_FALSE(std::filesystem::exists(late));
  ExpectExact();
  for (int i = 0; i < 1000 && Contents(late).empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(Contents(late), "late\n");
}

TEST_F(RecordTest, WaitsForAllIfAskedTo) {
  options_.wait_for_all = true;
  const std::string late = directory_ + "/late";
  Record({"sh", "-c", "{ sleep 1; echo late > " + late + "; } & echo done; exit 4"});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 4);
  EXPECT_EQ(result_.processes_left, 0u);
  EXPECT_EQ(Contents(late), "late\n");
  ExpectExact();
}

TEST_F(RecordTest, OnceTheProgramHasEndedTheFirstInterruptIsForTheRecorder) {
  options_.wait_for_all = true;
  Bystander bystander(directory_ + "/out", [] {
    std::this_thread::sleep_for(milliseconds(700));
    kill(getpid(), SIGINT);
  });
  const auto begun = std::chrono::steady_clock::now();
  Record({"sh", "-c", "sleep 30 & echo done"});
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 0);
  ExpectExact();
}

// A turn that did would leave the others in doubt of what the call is going to store, and the
// thread would need another turn just to begin it.
TEST_F(RecordTest, NoTurnEndsBetweenACallAndItsBeginning) {
  Record({Program("barriers")});
  std::set<std::pair<int32_t, uint64_t>> begun;
  for (const ProcessEvent& slice : Events(EventKind::kSlice)) {
    EXPECT_TRUE(begun.emplace(slice.thread, slice.count).second)
        << "thread " << slice.thread << " does nothing from " << slice.count << " on";
  }
  EXPECT_GT(begun.size(), 50u);
  ExpectExact();
}

}  // namespace
}  // namespace hindsight
