#include "recorder/ptrace/watch/watched_process.h"

#include <gtest/gtest.h>
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

// What a child and the test say to each other.
struct Shared {
  std::array<std::atomic<long>, kThreads> counts = {};
  std::atomic<bool> vforks = false;
  std::array<std::atomic<bool>, kThreads> quiet = {};
  std::atomic<bool> waits = false, ends = false;
};
Shared* shared;

// Its first instruction is longer than a breakpoint.
__attribute__((naked)) void Arrive(std::atomic<long>*) { __asm__("lock incq (%rdi)\n ret"); }

using Work = void(int thread);

void ArriveForEver(int thread) {
  while (true) Arrive(&shared->counts[thread]);
}

// Makes children that have its memory, and pass the place, while they are wanted. Should one not
// end as it is to, this process ends as well.
void VforkForEver(int thread) {
  while (true) {
    shared->quiet[thread] = !shared->vforks;
    if (shared->quiet[thread]) continue;
    const pid_t child = vfork();
    if (child == 0) {
      while (shared->vforks) Arrive(&shared->counts[thread]);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) _exit(WTERMSIG(status));
  }
}

// The last thread waits for a child that does not end before it is told to.
void WaitForChild(int thread) {
  if (thread != kThreads - 1) ArriveForEver(thread);
  if (vfork() == 0) {
    shared->waits = true;
    while (!shared->ends) usleep(1000);
    _exit(0);
  }
  ArriveForEver(thread);
}

void SpinFor(std::chrono::microseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

// A child whose threads pass the one place.
class BusyChild {
 public:
  explicit BusyChild(Work* work = ArriveForEver) {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = new (memory) Shared();
    child_ = fork();
    if (child_ != 0) return;
    for (int i = 1; i < kThreads; ++i) std::thread(work, i).detach();
    work(0);
  }
  ~BusyChild() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(shared, sizeof(Shared));
  }
  BusyChild(const BusyChild&) = delete;
  BusyChild& operator=(const BusyChild&) = delete;

  pid_t pid() const { return child_; }
  // Within seconds, each thread passes the place again.
  bool AllGoOn() const {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    for (const std::atomic<long>& count : shared->counts) {
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

// The child has died of SIGTRAP if one of its own children has.
TEST(WatchedProcessTest, ChildrenWithItsMemoryOutliveTheEnd) {
  const BusyChild child(VforkForEver);
  const auto place = reinterpret_cast<uint64_t>(&Arrive);
  for (int round = 0; round < 30; ++round) {
    DisturbedCalls calls;
    Stragglers stragglers;
    {
      const auto watched = WatchedProcess::Seize(
          child.pid(), {.find_places = [&] { return WatchedProcess::Places{.stops = {place}}; },
                        .calls = &calls,
                        .stragglers = &stragglers});
      ASSERT_TRUE(watched.ok()) << watched.status();
      shared->vforks = true;
      for (const auto end = Clock::now() + std::chrono::microseconds(1000 + 97 * round);
           Clock::now() < end;) {
        (*watched)->Next();
      }
    }
    shared->vforks = false;
    while (!stragglers.LetGo()) usleep(100);
    for (const std::atomic<bool>& quiet : shared->quiet) {
      while (!quiet && child.Ending() == 0) usleep(100);
    }
    ASSERT_EQ(child.Ending(), 0) << "round " << round;
  }
  for (const std::atomic<long>& count : shared->counts) EXPECT_GT(count, 0);
}

TEST(WatchedProcessTest, AThreadThatWaitsForItsChildIsLetGoOfLater) {
  const BusyChild child(WaitForChild);
  const auto place = reinterpret_cast<uint64_t>(&Arrive);
  DisturbedCalls calls;
  Stragglers stragglers;
  Clock::time_point begin;
  {
    const auto watched = WatchedProcess::Seize(
        child.pid(), {.find_places = [&] { return WatchedProcess::Places{.stops = {place}}; },
                      .calls = &calls,
                      .stragglers = &stragglers});
    ASSERT_TRUE(watched.ok()) << watched.status();
    while (!shared->waits) {
      if (const auto event = (*watched)->Next()) (*watched)->Pass(event->thread);
    }
    begin = Clock::now();
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
  EXPECT_FALSE(stragglers.LetGo());
  shared->ends = true;
  while (!stragglers.LetGo()) usleep(1000);
  EXPECT_TRUE(child.AllGoOn());
  EXPECT_EQ(child.Ending(), 0);
}

// To look for places takes so long that all threads have arrived again.
TEST(WatchedProcessTest, HooksThatAreReachedAllTheTimeDoNotHoldTheCaller) {
  const BusyChild child;
  ASSERT_TRUE(child.AllGoOn());
  const auto place = reinterpret_cast<uint64_t>(&Arrive);
  DisturbedCalls calls;
  {
    const auto find = [&] {
      usleep(3000);
      return WatchedProcess::Places{.hooks = {place}};
    };
    const auto watched = WatchedProcess::Seize(child.pid(), {.find_places = find, .calls = &calls});
    ASSERT_TRUE(watched.ok()) << watched.status();
    bool more = false;
    for (const auto end = Clock::now() + std::chrono::seconds(20); !more && Clock::now() < end;) {
      const auto begin = Clock::now();
      EXPECT_FALSE((*watched)->Next().has_value());
      EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
      more = (*watched)->more();
    }
    EXPECT_TRUE(more);
    const auto stop = (*watched)->Stop(std::chrono::seconds(5));
    ASSERT_TRUE(stop.ok()) << stop.status();
    (*stop)->Release();
    (*watched)->Resume();
  }
  EXPECT_TRUE(child.AllGoOn());
  EXPECT_EQ(child.Ending(), 0);
}

}  // namespace
}  // namespace hindsight
