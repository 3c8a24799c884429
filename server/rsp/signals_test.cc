#include "server/rsp/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>

namespace hindsight {
namespace {

TEST(SignalsTest, NumbersAreGdbs) {
  EXPECT_EQ(GdbSignal(0), 0);
  EXPECT_EQ(GdbSignal(SIGINT), 2);
  EXPECT_EQ(GdbSignal(SIGTRAP), 5);
  EXPECT_EQ(GdbSignal(SIGBUS), 10);
  EXPECT_EQ(GdbSignal(SIGSEGV), 11);
  EXPECT_EQ(GdbSignal(SIGALRM), 14);
  EXPECT_EQ(GdbSignal(SIGCHLD), 20);
  EXPECT_EQ(GdbSignal(SIGIO), 23);
  EXPECT_EQ(GdbSignal(SIGUSR1), 30);
  EXPECT_EQ(GdbSignal(SIGSYS), 12);
  EXPECT_EQ(GdbSignal(32), 77);
  EXPECT_EQ(GdbSignal(34), 46);
  EXPECT_EQ(GdbSignal(63), 75);
  EXPECT_EQ(GdbSignal(64), 78);
}

TEST(SignalsTest, WhatGdbDoesNotHaveIsUnknown) {
  EXPECT_EQ(GdbSignal(SIGSTKFLT), 143);
  EXPECT_EQ(GdbSignal(65), 143);
  EXPECT_EQ(GdbSignal(-1), 143);
}

TEST(SignalsTest, NoTwoSignalsShareANumber) {
  std::set<int> numbers;
  for (int signal = 1; signal <= 64; ++signal) numbers.insert(GdbSignal(signal));
  EXPECT_EQ(numbers.size(), 64u);
}

}  // namespace
}  // namespace hindsight
