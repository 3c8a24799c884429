#include "recorder/pace/idle_pace.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace hindsight {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLongest(IdlePace::kLongestWaitMs);

// Keeps the processor of the calling thread, which stays on it, busy: with work at an ordinary
// priority, so that a thread that runs only when there is nothing else to do hardly does.
class BusyProcessor {
 public:
  BusyProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    thread_ = std::thread([this] {
      while (!over_) {
      }
    });
  }
  ~BusyProcessor() {
    over_ = true;
    thread_.join();
    sched_setaffinity(0, sizeof(before_), &before_);
  }

 private:
  cpu_set_t before_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// How long the next steps take in which nothing is done.
Clock::duration TimeOf(IdlePace* pace, int steps) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < steps; ++i) pace->Run([] {});
  return Clock::now() - begin;
}

void Work() {
  timespec now;
  const auto ran_ms = [&now] {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  };
  const int64_t end = ran_ms() + 3;
  while (ran_ms() < end) {
  }
}

// How long the next steps take, each of which works for some milliseconds: the kernel lets any
// thread that has long been waiting run for an instant.
Clock::duration TimeOfWork(IdlePace* pace, int steps) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < steps; ++i) pace->Run(Work);
  return Clock::now() - begin;
}

TEST(IdlePaceTest, RunsEachStepOnce) {
  IdlePace pace;
  int run = 0;
  for (int i = 1; i <= 1000; ++i) {
    pace.Hurry(i % 3 == 0);
    pace.Run([&] { ++run; });
    ASSERT_EQ(run, i);
  }
}

TEST(IdlePaceTest, StepsAreDoneEventually) {
  const BusyProcessor busy;
  IdlePace pace;
  // Each waits as long as a step may, or less; this thread itself has half of a processor.
  EXPECT_LT(TimeOf(&pace, 10), 10 * kLongest + milliseconds(2000));
}

TEST(IdlePaceTest, StepsWaitWhileTheProcessorIsBusy) {
  const BusyProcessor busy;
  IdlePace pace;
  EXPECT_GT(TimeOfWork(&pace, 10), 3 * kLongest);
}

// What runs beside a busy program does not take its time.
TEST(IdlePaceTest, StepsAreInterruptedWhenTheProcessorIsWanted) {
  IdlePace pace;
  int policy = SCHED_OTHER;
  // The machine may be busy with something else: some step finds it idle.
  for (int i = 0; i < 50 && policy != SCHED_IDLE; ++i) {
    pace.Run([&] { policy = sched_getscheduler(0); });
  }
  EXPECT_EQ(policy, SCHED_IDLE);
}

TEST(IdlePaceTest, InAHurryNothingWaits) {
  const BusyProcessor busy;
  IdlePace pace;
  pace.Hurry(true);
  EXPECT_LT(TimeOf(&pace, 200), 100 * kLongest);
  pace.Hurry(false);
  EXPECT_GT(TimeOfWork(&pace, 10), 3 * kLongest);
}

// Without it 40 steps would take four seconds.
TEST(IdlePaceTest, HurryWakesWhoeverWaits) {
  const BusyProcessor busy;
  IdlePace pace;
  std::atomic<bool> over{false};
  std::thread hurries([&] {
    while (!over) {
      pace.Hurry(true);
      pace.Hurry(false);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_LT(TimeOf(&pace, 40), 20 * kLongest);
  over = true;
  hurries.join();
}

TEST(IdlePaceTest, StepsAreShortOnAnIdleProcessor) {
  IdlePace pace;
  // The machine may be busy with something else: some step finds it idle.
  bool found = false;
  for (int i = 0; i < 200 && !found; ++i) found = TimeOf(&pace, 1) < kLongest / 2;
  EXPECT_TRUE(found);
}

TEST(IdlePaceTest, EndsThoughItsThreadNeverRuns) {
  const BusyProcessor busy;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 10; ++i) {
    IdlePace pace;
    pace.Run([] {});
  }
  EXPECT_LT(Clock::now() - begin, 20 * kLongest);
}

}  // namespace
}  // namespace hindsight
