#include "recorder/ptrace/whole/process_stop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "recorder/ptrace/whole/whole_fixture.h"

namespace hindsight {
namespace {

char StateOf(pid_t pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(stat, text);
  return text[text.rfind(')') + 2];
}

TEST(ProcessStopTest, AHundredTimesUnnoticed) {
  RunningProgram program({TestProgram("busy_threads")}, false);
  ASSERT_EQ(program.ReadLine(), "ready\n");
  size_t in_calls = 0, computing = 0;
  for (int i = 0; i < 100; ++i) {
    const auto stop = StopProcess(program.child());
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->threads().at(0).thread, program.child());
    const std::vector<ThreadMoment> moments = stop->Read();
    EXPECT_EQ(moments.size(), stop->threads().size());
    EXPECT_GE(moments.size(), 17u);
    for (const ThreadMoment& moment : moments) {
      (moment.system_call >= 0 ? in_calls : computing) += 1;
      EXPECT_NE(moment.registers.rip, 0u);
      EXPECT_EQ(moment.name, "busy_threads");
    }
    EXPECT_LE(stop->skew_ns(), stop->stood_ns());
    stop->Release();
    usleep(i % 7 * 1000);
  }
  EXPECT_GT(in_calls, 500u);
  EXPECT_GT(computing, 50u);
  int status;
  const std::string out = program.Finish(&status);
  EXPECT_EQ(status, 0) << out;
  EXPECT_TRUE(absl::StrContains(out, "complaints 0\n")) << out;
}

TEST(ProcessStopTest, StoppedByJobControlStaysSo) {
  RunningProgram program({TestProgram("busy_threads")}, false);
  ASSERT_EQ(program.ReadLine(), "ready\n");
  kill(program.child(), SIGSTOP);
  while (StateOf(program.child()) != 'T') usleep(1000);
  {
    const auto stop = StopProcess(program.child());
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->threads().at(0).group_stop, SIGSTOP);
  }
  while (StateOf(program.child()) != 'T') usleep(1000);
  kill(program.child(), SIGCONT);
  int status;
  program.Finish(&status);
  EXPECT_TRUE(WIFEXITED(status));
}

TEST(ProcessStopTest, NoSuchProcess) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  Stragglers stragglers;
  EXPECT_TRUE(
      absl::IsNotFound(ProcessStop::Make(ended, std::chrono::seconds(1), &stragglers).status()));
}

// The maker of a child by vfork stands still in the kernel until that executes a program.
TEST(ProcessStopTest, ThreadThatDoesNotStopGoesOn) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t below = vfork();
    if (below == 0) {
      char byte;
      [[maybe_unused]] const ssize_t got = read(go[0], &byte, 1);
      _exit(3);
    }
    int status = 0;
    waitpid(below, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  while (StateOf(child) != 'D') usleep(1000);
  Stragglers stragglers;
  EXPECT_TRUE(absl::IsUnavailable(
      ProcessStop::Make(child, std::chrono::milliseconds(50), &stragglers).status()));
  EXPECT_TRUE(absl::IsUnavailable(
      ProcessStop::Make(child, std::chrono::milliseconds(50), &stragglers).status()));
  ASSERT_EQ(write(go[1], "g", 1), 1);
  while (!stragglers.LetGo()) usleep(1000);
  int status;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace hindsight
