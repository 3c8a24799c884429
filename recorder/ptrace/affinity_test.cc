#include "recorder/ptrace/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

namespace hindsight {
namespace {

int CountCpus(const CpuMask& mask) {
  int count = 0;
  for (const uint8_t byte : mask) count += std::popcount(byte);
  return count;
}

// A process to be bound.
class AffinityTest : public testing::Test {
 protected:
  void SetUp() override {
    if (CountCpus(all_) < 2) GTEST_SKIP() << "there is only one processor";
    pid_ = fork();
    if (pid_ == 0) {
      while (true) pause();
    }
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  const CpuMask all_ = ReadAffinity(0);
  pid_t pid_ = 0;
};

TEST_F(AffinityTest, ThreadFollowsIsToldOtherwiseAndReleased) {
  HostAffinity host;
  host.Tick(1);
  EXPECT_EQ(CountCpus(ReadAffinity(0)), 1);
  ThreadAffinity affinity(pid_);
  affinity.Follow();
  EXPECT_EQ(ReadAffinity(pid_), ReadAffinity(0));
  EXPECT_EQ(affinity.mask(), all_);
  affinity.Release();
  EXPECT_EQ(ReadAffinity(pid_), all_);
}

TEST_F(AffinityTest, HostIsFreeNowAndThenAndInTheEnd) {
  {
    HostAffinity host;
    host.Tick(1);
    host.Tick(2);
    EXPECT_EQ(CountCpus(ReadAffinity(0)), 1);
    host.Tick(10'000'000'000);
    EXPECT_EQ(ReadAffinity(0), all_);
    host.Tick(20'000'000'000);
    EXPECT_EQ(CountCpus(ReadAffinity(0)), 1);
  }
  EXPECT_EQ(ReadAffinity(0), all_);
}

TEST_F(AffinityTest, WhatTheProgramChoseStays) {
  ThreadAffinity affinity(pid_);
  affinity.Follow();
  cpu_set_t one;
  CPU_ZERO(&one);
  const int other = sched_getcpu() == 0 ? 1 : 0;
  CPU_SET(other, &one);
  if (sched_setaffinity(pid_, sizeof(one), &one) != 0) GTEST_SKIP() << "not allowed to run there";
  affinity.NoteChange();
  const CpuMask chosen = ReadAffinity(pid_);
  affinity.Follow();
  EXPECT_EQ(ReadAffinity(pid_), chosen);
  EXPECT_EQ(affinity.mask(), chosen);
  affinity.Release();
  EXPECT_EQ(ReadAffinity(pid_), chosen);
}

TEST_F(AffinityTest, ChildrenThatAreNotRecordedAreFreed) {
  ThreadAffinity affinity(pid_);
  affinity.Follow();
  affinity.Release();
  affinity.Follow();
  ThreadAffinity child(pid_);
  child.TakeOver(affinity);
  EXPECT_EQ(child.mask(), all_);
  child.Free(pid_);
  EXPECT_EQ(ReadAffinity(pid_), all_);
}

}  // namespace
}  // namespace hindsight
