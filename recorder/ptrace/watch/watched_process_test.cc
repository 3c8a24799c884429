#include "recorder/ptrace/watch/watched_process.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "recorder/ptrace/whole/disturbed_calls.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 4;
using Counts = std::array<std::atomic<long>, kThreads>;

// Its first instruction is longer than a breakpoint.
__attribute__((naked)) void Arrive(std::atomic<long>*) { __asm__("lock incq (%rdi)\n ret"); }

void* ArriveForEver(void* count) {
  while (true) Arrive(static_cast<std::atomic<long>*>(count));
}

void SpinFor(std::chrono::microseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

// A child whose threads do nothing but pass the one place.
class BusyChild {
 public:
  BusyChild() {
    void* const memory =
        mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    counts_ = new (memory) Counts();
    child_ = fork();
    if (child_ != 0) return;
    for (int i = 1; i < kThreads; ++i) {
      pthread_t thread;
      pthread_create(&thread, nullptr, ArriveForEver, &(*counts_)[i]);
    }
    ArriveForEver(counts_->data());
  }
  ~BusyChild() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(counts_, sizeof(Counts));
  }

  pid_t pid() const { return child_; }
  // Within seconds, each thread passes the place again.
  bool AllGoOn() const {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    for (std::atomic<long>& count : *counts_) {
      for (const long before = count; count == before;) {
        if (Clock::now() > deadline) return false;
        usleep(100);
      }
    }
    return true;
  }
  // How it has ended, as waitpid says; 0: it has not.
  int Ending() const {
    siginfo_t info = {};
    waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid == child_ ? info.si_status : 0;
  }

 private:
  Counts* counts_;
  pid_t child_;
};

// The end comes at any moment between a breakpoint's execution and its report.
TEST(WatchedProcessTest, ThreadsAtBreakpointsOutliveTheEnd) {
  const BusyChild child;
  ASSERT_TRUE(child.AllGoOn());
  const auto place = reinterpret_cast<uint64_t>(&Arrive);
  for (int round = 0; round < 300; ++round) {
    DisturbedCalls calls;
    {
      const auto watched = WatchedProcess::Seize(
          child.pid(), {.find_places = [&] { return WatchedProcess::Places{.stops = {place}}; },
                        .calls = &calls});
      ASSERT_TRUE(watched.ok()) << watched.status();
      SpinFor(std::chrono::microseconds(round % 60));
    }
    ASSERT_EQ(child.Ending(), 0) << "round " << round;
  }
  EXPECT_TRUE(child.AllGoOn());
  EXPECT_EQ(child.Ending(), 0);
}

// A thread in a stop has arrived, or has not: it is never behind a breakpoint.
TEST(WatchedProcessTest, NoThreadStopsBehindABreakpoint) {
  const BusyChild child;
  ASSERT_TRUE(child.AllGoOn());
  const auto place = reinterpret_cast<uint64_t>(&Arrive);
  DisturbedCalls calls;
  const auto watched = WatchedProcess::Seize(
      child.pid(),
      {.find_places = [&] { return WatchedProcess::Places{.stops = {place}}; }, .calls = &calls});
  ASSERT_TRUE(watched.ok()) << watched.status();
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < kThreads; ++i) {
      if (const auto event = (*watched)->Next()) (*watched)->Pass(event->thread);
    }
    const auto stop = (*watched)->Stop(std::chrono::seconds(5));
    ASSERT_TRUE(stop.ok()) << stop.status();
    for (const ThreadMoment& moment : (*stop)->Read()) {
      EXPECT_NE(moment.registers.rip, place + 1) << "round " << round;
    }
    (*stop)->Release();
    (*watched)->Resume();
  }
}

}  // namespace
}  // namespace hindsight
