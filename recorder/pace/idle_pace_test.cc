#include "recorder/pace/idle_pace.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
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

// How long the next steps of the pace take in which nothing is done.
Clock::duration TimeOf(IdlePace* pace, int steps) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < steps; ++i) pace->Spend(IdlePace::kStepBytes);
  return Clock::now() - begin;
}

TEST(IdlePaceTest, TheFirstStepAndPartsOfOneNeedNoLeave) {
  const BusyProcessor busy;
  for (int i = 0; i < 20; ++i) {
    IdlePace pace;
    const Clock::time_point begin = Clock::now();
    for (int part = 0; part < 1024; ++part) pace.Spend(IdlePace::kStepBytes / 1024);
    // None of twenty: one may have been kept from running.
    if (Clock::now() - begin < kLongest / 2) return;
  }
  ADD_FAILURE() << "each first step has waited";
}

TEST(IdlePaceTest, StepsAreDoneEventually) {
  const BusyProcessor busy;
  IdlePace pace;
  TimeOf(&pace, 1);
  // Each waits as long as a step may, or less; this thread itself has half of a processor.
  EXPECT_LT(TimeOf(&pace, 10), 10 * kLongest + milliseconds(2000));
}

TEST(IdlePaceTest, StepsWaitWhileTheProcessorIsBusy) {
  const BusyProcessor busy;
  IdlePace pace;
  TimeOf(&pace, 1);
  EXPECT_GT(TimeOf(&pace, 10), 3 * kLongest);
}

TEST(IdlePaceTest, InAHurryNothingWaits) {
  const BusyProcessor busy;
  IdlePace pace;
  pace.Hurry(true);
  EXPECT_LT(TimeOf(&pace, 200), 100 * kLongest);
  pace.Hurry(false);
  TimeOf(&pace, 1);
  EXPECT_GT(TimeOf(&pace, 10), 3 * kLongest);
}

// Without it 40 steps would take two seconds.
TEST(IdlePaceTest, HurryWakesWhoeverWaits) {
  const BusyProcessor busy;
  IdlePace pace;
  TimeOf(&pace, 1);
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
  TimeOf(&pace, 1);
  // The machine may be busy with something else: some step finds it idle.
  bool found = false;
  for (int i = 0; i < 200 && !found; ++i) found = TimeOf(&pace, 1) < kLongest / 2;
  EXPECT_TRUE(found);
}

TEST(IdlePaceTest, EndsThoughItsThreadNeverRuns) {
  const BusyProcessor busy;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 20; ++i) {
    IdlePace pace;
    pace.Spend(IdlePace::kStepBytes);
  }
  EXPECT_LT(Clock::now() - begin, 20 * kLongest);
}

}  // namespace
}  // namespace hindsight
