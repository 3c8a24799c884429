#include "recorder/emulate/thread/cpu_time.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <time.h>

#include <cstring>

#include "gtest/gtest.h"
#include "recorder/ptrace/true_process.h"

namespace hindsight {
namespace {

// A stopped process with a T on its stack that is all zero.
class CpuTimeTest : public testing::Test {
 protected:
  void SetUp() override {
    tracee_ = LaunchTrue();
    ASSERT_NE(tracee_, nullptr);
    RegisterFile registers;
    ASSERT_TRUE(tracee_->GetRegisters(false, &registers));
    address_ = registers.gpr[kRsp] - 1024;
  }

  // What a call with these arguments reports, of which `pointer` is the buffer.
  template <typename T>
  T Told(int64_t number, uint64_t first, int pointer) {
    T value;
    std::memset(&value, 0, sizeof(value));
    const auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), sizeof(value));
    EXPECT_TRUE(tracee_->memory().Write(address_, bytes));
    uint64_t arguments[6] = {first};
    arguments[pointer] = address_;
    AddEmulatedTime(number, arguments, {.thread_ns = 1'500'000'000, .process_ns = 2'250'000'000},
                    tracee_.get());
    EXPECT_TRUE(tracee_->memory().Read(address_, bytes));
    return value;
  }

  std::unique_ptr<Tracee> tracee_;
  uint64_t address_ = 0;
};

TEST_F(CpuTimeTest, ProcessorTimeClocks) {
  const auto thread = Told<timespec>(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, 1);
  EXPECT_EQ(thread.tv_sec, 1);
  EXPECT_EQ(thread.tv_nsec, 500'000'000);
  const auto process = Told<timespec>(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, 1);
  EXPECT_EQ(process.tv_sec, 2);
  EXPECT_EQ(process.tv_nsec, 250'000'000);
}

TEST_F(CpuTimeTest, OtherClocksAreTheKernels) {
  EXPECT_EQ(Told<timespec>(SYS_clock_gettime, CLOCK_MONOTONIC, 1).tv_sec, 0);
}

TEST_F(CpuTimeTest, TimesAndResourceUsage) {
  EXPECT_EQ(Told<tms>(SYS_times, 0, 0).tms_utime, 225);
  const auto thread = Told<rusage>(SYS_getrusage, RUSAGE_THREAD, 1);
  EXPECT_EQ(thread.ru_utime.tv_sec, 1);
  EXPECT_EQ(thread.ru_utime.tv_usec, 500'000);
  EXPECT_EQ(Told<rusage>(SYS_getrusage, static_cast<uint64_t>(RUSAGE_CHILDREN), 1).ru_utime.tv_sec,
            0);
}

TEST_F(CpuTimeTest, BadPointersAreLeftAlone) {
  const uint64_t arguments[6] = {CLOCK_THREAD_CPUTIME_ID, 0x10};
  AddEmulatedTime(SYS_clock_gettime, arguments, {}, tracee_.get());
}

TEST(UncountedTimeTest, WhatIsPaidCountsNoMore) {
  UncountedTime time;
  time.Add(100, /*owed=*/false);
  time.Add(30, /*owed=*/true);
  EXPECT_EQ(time.ns(), 130u);
  EXPECT_EQ(time.owed_ns(), 30u);
  time.Pay(20);
  EXPECT_EQ(time.ns(), 110u);
  EXPECT_EQ(time.owed_ns(), 10u);
}

TEST(ProcessTimeTest, IsWhatTheKernelHasNotCounted) {
  ProcessTime time;
  EXPECT_FALSE(time.limited());
  time.Add(30);
  time.Subtract(10);
  EXPECT_EQ(time.ns(), 20u);
  time.NoteLimited();
  EXPECT_TRUE(time.limited());
}

}  // namespace
}  // namespace hindsight
