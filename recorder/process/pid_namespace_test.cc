// Processes in PID namespaces below ours, found by the numbers that they have there.

#include "recorder/process/pid_namespace.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "recorder/process/process_facts.h"

namespace hindsight {
namespace {

[[noreturn]] void WaitForEver() {
  while (true) pause();
}

TEST(PidNamespaceTest, OursIsOurs) {
  EXPECT_EQ(NumbersOf(getpid()).front(), getpid());
  EXPECT_TRUE(IsInOurPidNamespace(getpid()));
  EXPECT_FALSE(IsFirstOfNamespace(getpid()));
  EXPECT_EQ(PidNamespace(getpid()).FindChild(getpid(), 123456), 123456);
  EXPECT_EQ(FindThread(getpid(), NumbersOf(getpid()).back()), getpid());
}

TEST(PidNamespaceTest, NobodyIsNotFound) {
  EXPECT_EQ(FindProcess(getpid(), getpid(), [](pid_t) { return false; }), 0);
  EXPECT_EQ(FindThread(getpid(), 1 << 30), 0);
  EXPECT_TRUE(NumbersOf(1 << 30).empty());
}

TEST(PidNamespaceTest, ANameThatLooksLikeNumbersIsNone) {
  std::thread([] {
    ASSERT_EQ(pthread_setname_np(pthread_self(), "x NSpid: 5 6"), 0);
    EXPECT_EQ(NumbersOf(gettid()).front(), gettid());
  }).join();
}

TEST(PidNamespaceTest, WhatIsBelowIsFoundByItsNumbersThere) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  // Of the namespace that this one makes 1 is a child, 2 a grandchild, 3 a thread of that.
  const pid_t maker = fork();
  if (maker == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(1);
    if (fork() != 0 || fork() != 0) {
      close(ready[1]);
      WaitForEver();
    }
    std::thread([&ready] {
      if (write(ready[1], "r", 1) == 1) WaitForEver();
    }).join();
  }
  close(ready[1]);
  char byte;
  const bool permitted = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  if (permitted) {
    const pid_t first = FindProcess(/*guess=*/0, maker, [maker](pid_t process) {
      return StatusNumber(process, "PPid:") == maker && HasOwnNumber(process, 1);
    });
    ASSERT_NE(first, 0);
    EXPECT_TRUE(IsFirstOfNamespace(first));
    EXPECT_FALSE(IsInOurPidNamespace(first));
    const PidNamespace below(first);
    const pid_t second = below.FindChild(first, 2);
    ASSERT_NE(second, 0);
    EXPECT_EQ(NumbersOf(second), (std::vector<pid_t>{second, 2}));
    EXPECT_EQ(below.FindChild(first, 4), 0);
    const pid_t third = FindThread(second, 3);
    EXPECT_EQ(NumbersOf(third), (std::vector<pid_t>{third, 3}));
    EXPECT_EQ(ProcessOf(third), second);
    kill(first, SIGKILL);
    while (kill(second, 0) == 0) usleep(1000);
    EXPECT_EQ(below.FindChild(first, 2), 0);
  }
  kill(maker, SIGKILL);
  waitpid(maker, nullptr, 0);
  if (!permitted) GTEST_SKIP() << "namespaces are not permitted";
}

}  // namespace
}  // namespace hindsight
