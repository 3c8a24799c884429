#include "recorder/process/scheduling.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

std::string Stat(const std::string& name, const std::string& cpu) {
  std::string text = absl::StrCat("7 (", name, ") S");
  for (int field = 4; field < 39; ++field) absl::StrAppend(&text, " ", field);
  return absl::StrCat(text, " ", cpu, " 0 0 0\n");
}

TEST(ParseStatTest, FindsCpuStateAndName) {
  const auto note = ParseStat(Stat("worker", "13"));
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(*note, (SchedulingNote{13, 'S', "worker"}));
}

TEST(ParseStatTest, NameMayBeAnything) {
  EXPECT_EQ(ParseStat(Stat(") R 1 (", "2"))->name, ") R 1 (");
  EXPECT_EQ(ParseStat(Stat("", "2"))->name, "");
}

TEST(ParseStatTest, RejectsOtherText) {
  EXPECT_FALSE(ParseStat("").has_value());
  EXPECT_FALSE(ParseStat(")(").has_value());
  EXPECT_FALSE(ParseStat("7 (x) S 1 2 3").has_value());
  EXPECT_FALSE(ParseStat(Stat("x", "y")).has_value());
}

TEST(ThreadSchedulingTest, SeesThisThread) {
  cpu_set_t old;
  sched_getaffinity(0, sizeof(old), &old);
  prctl(PR_SET_NAME, "watched");
  const ThreadScheduling self(getpid(), gettid());
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &old)) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
    const auto note = self.Read();
    ASSERT_TRUE(note.has_value());
    EXPECT_EQ(*note, (SchedulingNote{cpu, 'R', "watched"}));
  }
  sched_setaffinity(0, sizeof(old), &old);
}

TEST(ThreadSchedulingTest, ToldOnceItIsGone) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const ThreadScheduling scheduling(child, child);
  EXPECT_TRUE(scheduling.Read().has_value());
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, child, &info, WEXITED | WNOWAIT);
  EXPECT_EQ(scheduling.Read()->state, 'Z');
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(scheduling.Read().has_value());
  EXPECT_FALSE(ThreadScheduling(child, child).Read().has_value());
}

// What a note costs; printed to help decide how often to take one.
TEST(ThreadSchedulingTest, IsCheap) {
  const ThreadScheduling self(getpid(), gettid());
  const auto start = std::chrono::steady_clock::now();
  constexpr int kReads = 2000;
  for (int i = 0; i < kReads; ++i) ASSERT_TRUE(self.Read().has_value());
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
      kReads;
  std::printf("%.2f us per note\n", us);
  EXPECT_LT(us, 1000);
}

}  // namespace
}  // namespace hindsight
