#include "recorder/ptrace/breakpoint_run.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/launch.h"
#include "recorder/session/stop_request.h"
#include "recorder/symbols/symbols.h"

namespace hindsight {
namespace {

std::string Program() {
  std::string here = "/proc/self/exe";
  char path[4096];
  const ssize_t length = readlink(here.c_str(), path, sizeof(path));
  const std::string self(path, length > 0 ? length : 0);
  return self.substr(0, self.rfind('/')) + "/../testdata/native_run";
}

// testdata/native_run, run from its first instruction to the events that it brings.
class BreakpointRunTest : public ::testing::Test {
 protected:
  void Launch(const std::string& what, const std::string& place = "ReachedPlace") {
    // A sanitizer of the program's own would look for leaks at its end, which it cannot do while
    // the program is traced.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    auto command = LookUpProgram({Program(), what});
    ASSERT_TRUE(command.ok()) << command.status();
    auto pid = LaunchTraced(*command);
    ASSERT_TRUE(pid.ok()) << pid.status();
    pid_ = *pid;
    place_ = *ParseCodePlace(place);
    run_ = std::make_unique<BreakpointRun>(
        pid_, [this] { return FindPlaces(); },
        /*guarded=*/false);
    run_->Start({{.thread = pid_}});
  }
  void TearDown() override {
    if (pid_ != 0) kill(pid_, SIGKILL);
    while (waitpid(-1, nullptr, __WALL) > 0 || errno == EINTR) {
    }
  }

  // Once the first thread has ended, only the others show the process's memory.
  MemoryMap Map() const {
    const std::string task = absl::StrCat("/proc/", pid_, "/task");
    for (const auto& entry : std::filesystem::directory_iterator(task)) {
      MemoryMap map = MemoryMap::OfProcess(entry.path() / "maps");
      if (!map.regions().empty()) return map;
    }
    return MemoryMap();
  }
  BreakpointRun::Places FindPlaces() {
    const MemoryMap map = Map();
    return {symbols_.Find(place_, map, pid_).addresses, symbols_.LinkerHooks(map, pid_)};
  }
  NativeEvent Next() {
    auto event = run_->Wait([&] { return stop_.requested(); });
    EXPECT_TRUE(event.ok()) << event.status();
    if (event.ok() && event->kind == NativeEventKind::kExited) pid_ = 0;
    return event.ok() ? *event : NativeEvent{};
  }
  // On from where all threads are stopped.
  void GoOn() { run_->Start(run_->threads(), /*leave_places=*/true); }

  void ExpectReached(const NativeEvent& event) {
    ASSERT_EQ(event.kind, NativeEventKind::kReached);
    user_regs_struct registers = {};
    ASSERT_EQ(ptrace(PTRACE_GETREGS, event.thread, nullptr, &registers), 0);
    EXPECT_EQ(registers.rip, event.address);
    EXPECT_EQ(FindPlaces().stops.at(0), event.address);
    // No breakpoint is left.
    errno = 0;
    const long word = ptrace(PTRACE_PEEKTEXT, event.thread, event.address, nullptr);
    EXPECT_EQ(errno, 0);
    EXPECT_NE(word & 0xff, 0xcc);
    for (const StoppedThread& thread : run_->threads()) {
      EXPECT_EQ(ptrace(PTRACE_GETREGS, thread.thread, nullptr, &registers), 0);
    }
  }
  void ExpectExit(const NativeEvent& event, int code) {
    ASSERT_EQ(event.kind, NativeEventKind::kExited);
    EXPECT_TRUE(WIFEXITED(event.wait_status)) << event.wait_status;
    EXPECT_EQ(WEXITSTATUS(event.wait_status), code);
  }

  StopRequest stop_{StopRequest::Program::kLaunched};
  pid_t pid_ = 0;
  Symbols symbols_;
  CodePlace place_;
  std::unique_ptr<BreakpointRun> run_;
};

TEST_F(BreakpointRunTest, StopsAtTheFunctionAndGoesOn) {
  Launch("once");
  ExpectReached(Next());
  GoOn();
  ExpectExit(Next(), 0);
}

TEST_F(BreakpointRunTest, ThreadThatStandsThereHasReachedIt) {
  Launch("once");
  const NativeEvent first = Next();
  ExpectReached(first);
  run_->Start(run_->threads());
  const NativeEvent second = Next();
  ExpectReached(second);
  EXPECT_EQ(second.address, first.address);
}

TEST_F(BreakpointRunTest, EveryThreadEveryTime) {
  Launch("threads");
  int times = 0;
  size_t most = 0;
  NativeEvent event = Next();
  for (; event.kind == NativeEventKind::kReached; event = Next()) {
    ++times;
    most = std::max(most, run_->threads().size());
    GoOn();
  }
  // Threads that stand at the place when another has reached it are moved on with it.
  EXPECT_GT(times, 20);
  EXPECT_LE(times, 120);
  EXPECT_GE(most, 3u);
  ExpectExit(event, 0);
}

TEST_F(BreakpointRunTest, LibraryThatIsLoadedLater) {
  Launch("library", "libm.so.6:cbrt");
  ExpectReached(Next());
  GoOn();
  ExpectExit(Next(), 0);
}

TEST_F(BreakpointRunTest, LibraryThatTheProgramBeginsWith) {
  Launch("spawn", "libc.so.6:posix_spawn");
  ExpectReached(Next());
}

TEST_F(BreakpointRunTest, NothingToReachIsNoObstacle) {
  Launch("threads", "NoSuchFunction");
  ExpectExit(Next(), 0);
}

TEST_F(BreakpointRunTest, ForkedChildHasNoBreakpoints) {
  Launch("fork");
  const NativeEvent fork = Next();
  ASSERT_EQ(fork.kind, NativeEventKind::kForked);
  EXPECT_FALSE(fork.after_exec);
  ASSERT_EQ(ptrace(PTRACE_DETACH, fork.child, nullptr, nullptr), 0);
  ExpectExit(Next(), 0);
}

TEST_F(BreakpointRunTest, VforkChildPassesAndIsToldOfAtItsExec) {
  for (const char* what : {"vfork", "spawn"}) {
    Launch(what);
    const NativeEvent child = Next();
    ASSERT_EQ(child.kind, NativeEventKind::kForked) << what;
    EXPECT_TRUE(child.after_exec);
    char program[256] = {};
    ASSERT_GT(readlink(absl::StrCat("/proc/", child.child, "/exe").c_str(), program, 255), 0);
    EXPECT_NE(std::string(program), Program());
    ASSERT_EQ(ptrace(PTRACE_DETACH, child.child, nullptr, nullptr), 0);
    NativeEvent next = Next();
    if (next.kind == NativeEventKind::kReached) {
      GoOn();
      next = Next();
    }
    ExpectExit(next, 0);
  }
}

TEST_F(BreakpointRunTest, SignalsReachTheProgram) {
  Launch("signals");
  ExpectReached(Next());
  GoOn();
  ExpectExit(Next(), 0);
}

TEST_F(BreakpointRunTest, ExecIsToldAndForgetsBreakpoints) {
  for (const char* what : {"exec", "thread-exec"}) {
    Launch(what);
    const NativeEvent exec = Next();
    ASSERT_EQ(exec.kind, NativeEventKind::kExec) << what;
    EXPECT_EQ(exec.thread, pid_);
    ASSERT_EQ(run_->threads().size(), 1u);
    run_->Start(run_->threads());
    ExpectReached(Next());
    GoOn();
    ExpectExit(Next(), 0);
  }
}

TEST_F(BreakpointRunTest, FirstThreadMayEndBeforeTheOthers) {
  Launch("first-ends");
  const NativeEvent event = Next();
  ExpectReached(event);
  EXPECT_NE(event.thread, pid_);
  ASSERT_EQ(run_->threads().size(), 1u);
  GoOn();
  ExpectExit(Next(), 9);
}

TEST_F(BreakpointRunTest, StopsWhenAsked) {
  Launch("wait");
  raise(SIGTERM);
  EXPECT_EQ(Next().kind, NativeEventKind::kStopped);
  EXPECT_EQ(run_->threads().size(), 1u);
}

TEST_F(BreakpointRunTest, KilledProgramIsGone) {
  Launch("wait");
  kill(pid_, SIGKILL);
  const NativeEvent event = Next();
  ASSERT_EQ(event.kind, NativeEventKind::kExited);
  EXPECT_EQ(WTERMSIG(event.wait_status), SIGKILL);
}

TEST_F(BreakpointRunTest, JobControlWorks) {
  Launch("wait");
  kill(pid_, SIGSTOP);
  // The tick after it has stopped asks for more.
  auto event = run_->Wait([&] { return kill(pid_, 0) == 0; });
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->kind, NativeEventKind::kStopped);
  ASSERT_EQ(run_->threads().size(), 1u);
  EXPECT_EQ(run_->threads()[0].group_stop, SIGSTOP);
  run_->Start(run_->threads());
  kill(pid_, SIGCONT);
  kill(pid_, SIGTERM);
  const NativeEvent end = Next();
  ASSERT_EQ(end.kind, NativeEventKind::kExited);
  EXPECT_EQ(WTERMSIG(end.wait_status), SIGTERM);
}

}  // namespace
}  // namespace hindsight
