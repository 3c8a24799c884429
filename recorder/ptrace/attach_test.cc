#include "recorder/ptrace/attach.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "recorder/process/memory_map.h"
#include "recorder/ptrace/remote_call.h"
#include "recorder/ptrace/thread_facts.h"

namespace hindsight {
namespace {

constexpr uintptr_t kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;

// A child process with its standard input and output.
class Child {
 public:
  explicit Child(const std::string& program, const char* argument = nullptr) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      execlp(program.c_str(), program.c_str(), argument, nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = fdopen(out[0], "r");
  }
  ~Child() {
    if (in_ >= 0) close(in_);
    std::fclose(out_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  std::string ReadLine() {
    char line[256] = {};
    return std::fgets(line, sizeof(line), out_) != nullptr ? line : "";
  }
  // Ends its input; what it still prints.
  std::string Finish(int* status) {
    close(in_);
    in_ = -1;
    std::string rest;
    for (std::string line = ReadLine(); !line.empty(); line = ReadLine()) rest += line;
    waitpid(pid_, status, 0);
    return rest;
  }
  char State() const {
    std::ifstream stat(absl::StrCat("/proc/", pid_, "/stat"));
    std::string text;
    std::getline(stat, text);
    return text[text.rfind(')') + 2];
  }
  void WaitForState(char state) const {
    while (State() != state) usleep(1000);
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  std::FILE* out_ = nullptr;
};

// A program that is built beside the test.
std::string Program(const std::string& name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string self(path, length > 0 ? length : 0);
  return self.substr(0, self.rfind('/')) + "/../testdata/" + name;
}

std::vector<ThreadToDetach> AsTheyAre(const std::vector<StoppedThread>& threads) {
  std::vector<ThreadToDetach> result;
  for (const StoppedThread& thread : threads) result.push_back({.thread = thread.thread});
  return result;
}

user_regs_struct RegistersOf(pid_t thread) {
  user_regs_struct registers = {};
  EXPECT_EQ(ptrace(PTRACE_GETREGS, thread, nullptr, &registers), 0);
  return registers;
}

TEST(AttachTest, AHundredTimesUnnoticed) {
  Child child(Program("busy_threads"));
  ASSERT_EQ(child.ReadLine(), "ready\n");
  size_t most = 0, in_calls = 0;
  for (int i = 0; i < 100; ++i) {
    auto threads = AttachToProcess(child.pid(), kOptions);
    ASSERT_TRUE(threads.ok()) << threads.status();
    most = std::max(most, threads->size());
    EXPECT_EQ(threads->at(0).thread, child.pid());
    const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", child.pid(), "/maps"));
    const MapRegion* vdso = map.FindNamed("[vdso]");
    for (const StoppedThread& thread : *threads) {
      EXPECT_EQ(thread.group_stop, 0);
      const user_regs_struct registers = RegistersOf(thread.thread);
      EXPECT_TRUE(registers.rip < vdso->start || registers.rip >= vdso->end);
      errno = 0;
      const long code = ptrace(PTRACE_PEEKTEXT, thread.thread, registers.rip, nullptr);
      if ((code & 0xffff) == 0x050f) ++in_calls;
    }
    ProcMemFile memory(child.pid());
    auto patches = PatchVdso(map, &memory);
    ASSERT_TRUE(patches.ok());
    EXPECT_FALSE(patches->empty());
    // Some run for a while, as recorded threads do that are in a system call.
    std::vector<ThreadToDetach> detach = AsTheyAre(*threads);
    for (ThreadToDetach& thread : detach) {
      if ((i + thread.thread) % 2 == 0) continue;
      thread.running = true;
      ASSERT_EQ(ptrace(i % 4 < 2 ? PTRACE_CONT : PTRACE_SYSCALL, thread.thread, nullptr, nullptr),
                0);
    }
    usleep(i % 3 * 1000);
    StopToDetach(absl::MakeSpan(detach));
    EXPECT_TRUE(DetachFromProcess(child.pid(), detach, *patches).ok());
    usleep(i % 7 * 1000);
  }
  EXPECT_GE(most, 17u);
  EXPECT_GT(in_calls, 500u);
  int status;
  const std::string out = child.Finish(&status);
  EXPECT_EQ(status, 0) << out;
  EXPECT_TRUE(absl::StrContains(out, "complaints 0\n")) << out;
}

TEST(AttachTest, SleepGoesOnToItsEnd) {
  Child child("cat");
  child.WaitForState('S');
  auto threads = AttachToProcess(child.pid(), kOptions);
  ASSERT_TRUE(threads.ok()) << threads.status();
  const user_regs_struct registers = RegistersOf(child.pid());
  EXPECT_EQ(registers.rax, static_cast<uint64_t>(SYS_read));  // about to be made, again
  EXPECT_EQ(registers.orig_rax, ~uint64_t{0});
  EXPECT_TRUE(DetachFromProcess(child.pid(), AsTheyAre(*threads), {}).ok());
  int status;
  child.Finish(&status);
  EXPECT_EQ(status, 0);
}

TEST(AttachTest, StoppedProcessStaysStopped) {
  Child child(Program("busy_threads"));
  ASSERT_EQ(child.ReadLine(), "ready\n");
  kill(child.pid(), SIGSTOP);
  child.WaitForState('T');
  for (int i = 0; i < 3; ++i) {
    auto threads = AttachToProcess(child.pid(), kOptions);
    ASSERT_TRUE(threads.ok()) << threads.status();
    std::vector<ThreadToDetach> detach = AsTheyAre(*threads);
    for (size_t t = 0; t < threads->size(); ++t) {
      EXPECT_EQ(threads->at(t).group_stop, SIGSTOP);
      if (i == 1) ptrace(PTRACE_LISTEN, detach[t].thread, nullptr, nullptr);
      detach[t].running = i == 1;
    }
    StopToDetach(absl::MakeSpan(detach));
    EXPECT_TRUE(DetachFromProcess(child.pid(), detach, {}).ok());
    child.WaitForState('T');
  }
  kill(child.pid(), SIGCONT);
  int status;
  const std::string out = child.Finish(&status);
  // An epoll_wait or the like fails when SIGCONT comes, with or without us.
  EXPECT_TRUE(absl::StrContains(out, "complaints")) << out;
  EXPECT_TRUE(WIFEXITED(status));
}

TEST(AttachTest, FirstThreadMayHaveEnded) {
  Child child(Program("native_run"), "first-ended");
  ASSERT_EQ(child.ReadLine(), "ready\n");
  child.WaitForState('Z');
  for (int i = 0; i < 5; ++i) {
    auto threads = AttachToProcess(child.pid(), kOptions);
    ASSERT_TRUE(threads.ok()) << threads.status();
    ASSERT_EQ(threads->size(), 1u);
    const pid_t thread = threads->at(0).thread;
    EXPECT_NE(thread, child.pid());
    ProcMemFile memory(thread);
    auto patches =
        PatchVdso(MemoryMap::OfProcess(absl::StrCat("/proc/", thread, "/maps")), &memory);
    ASSERT_TRUE(patches.ok());
    EXPECT_FALSE(patches->empty());
    EXPECT_TRUE(DetachFromProcess(child.pid(), AsTheyAre(*threads), *patches).ok());
    usleep(2000);
  }
  EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), 0);
}

TEST(AttachTest, OptionsAreInForce) {
  Child child("cat");
  child.WaitForState('S');
  auto threads = AttachToProcess(child.pid(), PTRACE_O_TRACESYSGOOD);
  ASSERT_TRUE(threads.ok()) << threads.status();
  ptrace(PTRACE_SYSCALL, child.pid(), nullptr, nullptr);
  int status;
  ASSERT_EQ(waitpid(child.pid(), &status, __WALL), child.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGTRAP | 0x80);
  EXPECT_TRUE(DetachFromProcess(child.pid(), {{.thread = child.pid(), .running = false}}, {}).ok());
  child.Finish(&status);
  EXPECT_EQ(status, 0);
}

// The read that it was about to make is made, and so is ours before it.
TEST(AttachTest, AThreadThatWasEnteringACallMakesItAfterThoseOfOthers) {
  Child child("cat");
  child.WaitForState('S');
  auto threads = AttachToProcess(child.pid(), PTRACE_O_TRACESYSGOOD);
  ASSERT_TRUE(threads.ok()) << threads.status();
  ptrace(PTRACE_SYSCALL, child.pid(), nullptr, nullptr);
  int status;
  ASSERT_EQ(waitpid(child.pid(), &status, __WALL), child.pid());
  ASSERT_TRUE(IsAtCallEntry(child.pid()));
  EXPECT_EQ(CallInThread(child.pid(), SYS_getppid, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  std::vector<ThreadToDetach> detach = {{.thread = child.pid()}};
  EXPECT_FALSE(MayCall(detach[0]));
  StopToDetach(absl::MakeSpan(detach));
  ASSERT_TRUE(MayCall(detach[0]));
  auto result = CallInThread(child.pid(), SYS_getppid, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, getpid());
  EXPECT_TRUE(DetachFromProcess(child.pid(), detach, {}).ok());
  child.Finish(&status);
  EXPECT_EQ(status, 0);
}

TEST(AttachTest, AThreadThatWaitsInACallIsStoppedAndMakesItAgain) {
  Child child("cat");
  child.WaitForState('S');
  auto threads = AttachToProcess(child.pid(), kOptions);
  ASSERT_TRUE(threads.ok()) << threads.status();
  ptrace(PTRACE_CONT, child.pid(), nullptr, nullptr);
  child.WaitForState('S');
  std::vector<ThreadToDetach> detach = {{.thread = child.pid(), .running = true}};
  EXPECT_FALSE(MayCall(detach[0]));
  StopToDetach(absl::MakeSpan(detach));
  ASSERT_TRUE(MayCall(detach[0]));
  EXPECT_EQ(*CallInThread(child.pid(), SYS_getppid, {}), getpid());
  EXPECT_TRUE(DetachFromProcess(child.pid(), detach, {}).ok());
  child.WaitForState('S');
  int status;
  child.Finish(&status);
  EXPECT_EQ(status, 0);
}

TEST(AttachTest, PendingSignalIsDeliveredWhenLetGo) {
  Child child("cat");
  child.WaitForState('S');
  auto threads = AttachToProcess(child.pid(), kOptions);
  ASSERT_TRUE(threads.ok());
  kill(child.pid(), SIGTERM);
  EXPECT_TRUE(DetachFromProcess(child.pid(), AsTheyAre(*threads), {}).ok());
  int status;
  ASSERT_EQ(waitpid(child.pid(), &status, 0), child.pid());
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

// Errors.

absl::StatusCode CodeOf(pid_t pid, const std::string& what) {
  const absl::Status status = AttachToProcess(pid, kOptions).status();
  EXPECT_TRUE(absl::StrContains(status.message(), what)) << status;
  EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
  return status.code();
}

TEST(AttachTest, WhoIsNotThereCannotBeAttachedTo) {
  EXPECT_EQ(CodeOf(0x3fffff, "no process"), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(-1, "no process"), absl::StatusCode::kNotFound);
  const pid_t zombie = fork();
  if (zombie == 0) _exit(0);
  siginfo_t info;
  waitid(P_PID, zombie, &info, WEXITED | WNOWAIT);
  EXPECT_EQ(CodeOf(zombie, "has ended"), absl::StatusCode::kNotFound);
  waitpid(zombie, nullptr, 0);
}

TEST(AttachTest, NotOurselvesNorTheKernelNorAThread) {
  EXPECT_EQ(CodeOf(getpid(), "itself"), absl::StatusCode::kInvalidArgument);
  std::string name;
  std::getline(std::ifstream("/proc/2/comm"), name);
  if (name == "kthreadd") {
    EXPECT_EQ(CodeOf(2, "thread of the kernel"), absl::StatusCode::kInvalidArgument);
  }
  Child child(Program("busy_threads"));
  ASSERT_EQ(child.ReadLine(), "ready\n");
  auto threads = AttachToProcess(child.pid(), kOptions);
  ASSERT_TRUE(threads.ok());
  EXPECT_EQ(CodeOf(threads->at(1).thread, absl::StrCat("of process ", child.pid())),
            absl::StatusCode::kInvalidArgument);
  // We trace it already.
  EXPECT_EQ(CodeOf(child.pid(), "traced already"), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(DetachFromProcess(child.pid(), AsTheyAre(*threads), {}).ok());
}

TEST(AttachTest, NotPermittedSaysWhy) {
  if (geteuid() != 0) GTEST_SKIP() << "needs another user's process";
  Child child("cat");
  child.WaitForState('S');
  const pid_t other = fork();
  if (other == 0) {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(2);
    const absl::Status status = AttachToProcess(child.pid(), kOptions).status();
    _exit(status.code() == absl::StatusCode::kPermissionDenied &&
                  absl::StrContains(status.message(), "(cat)")
              ? 0
              : 1);
  }
  int status;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(child.State(), 'S');
}

TEST(AttachTest, RegistersOfCallsThatAreOver) {
  user_regs_struct stopped = {};
  stopped.rip = 0x1002;
  stopped.orig_rax = SYS_futex;
  stopped.rax = static_cast<uint64_t>(-512);
  user_regs_struct again = RegistersToResumeFrom(stopped, false);
  EXPECT_EQ(again.rip, 0x1000u);
  EXPECT_EQ(again.rax, static_cast<uint64_t>(SYS_futex));
  EXPECT_EQ(again.orig_rax, ~uint64_t{0});
  stopped.rax = static_cast<uint64_t>(-516);
  EXPECT_EQ(RegistersToResumeFrom(stopped, false).rax, static_cast<uint64_t>(SYS_restart_syscall));
  // It has said what it had to say.
  stopped.rax = static_cast<uint64_t>(-EAGAIN);
  EXPECT_EQ(RegistersToResumeFrom(stopped, true).rip, 0x1002u);
  stopped.rax = static_cast<uint64_t>(-EINTR);
  EXPECT_EQ(RegistersToResumeFrom(stopped, true).rip, 0x1002u);
  // epoll_wait says EINTR though nothing was done.
  stopped.orig_rax = SYS_epoll_wait;
  EXPECT_EQ(RegistersToResumeFrom(stopped, true).rip, 0x1000u);
  EXPECT_EQ(RegistersToResumeFrom(stopped, false).rip, 0x1002u);
  // Not in a system call: the number is rax's own.
  stopped.orig_rax = ~uint64_t{0};
  stopped.rax = static_cast<uint64_t>(-512);
  EXPECT_EQ(RegistersToResumeFrom(stopped, true).rip, 0x1002u);
}

}  // namespace
}  // namespace hindsight
