#include "recorder/ptrace/wait_status.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Kind = WaitStatus::Kind;

// As the kernel makes it.
WaitStatus Stop(int signal, int event = 0) {
  return WaitStatus::Decode(event << 16 | signal << 8 | 0x7f);
}

TEST(WaitStatusTest, EndsAreNoStops) {
  EXPECT_FALSE(WaitStatus::Decode(3 << 8).stopped());  // exit(3)
  EXPECT_FALSE(WaitStatus::Decode(SIGKILL).stopped());
  EXPECT_EQ(WaitStatus::Decode(3 << 8).raw, 3 << 8);
  EXPECT_EQ(WaitStatus::Decode(SIGKILL).signal_to_deliver(), 0);
}

TEST(WaitStatusTest, SystemCallsAreNoSignals) {
  EXPECT_EQ(Stop(SIGTRAP | 0x80).kind, Kind::kSyscall);
  EXPECT_EQ(Stop(SIGTRAP | 0x80).signal_to_deliver(), 0);
  EXPECT_EQ(Stop(SIGTRAP).kind, Kind::kSignal);
  EXPECT_EQ(Stop(SIGTRAP).signal_to_deliver(), SIGTRAP);
}

TEST(WaitStatusTest, StopsByJobControlAreEventStopsWithTheirSignal) {
  EXPECT_TRUE(Stop(SIGTRAP, PTRACE_EVENT_STOP).is_event_stop());
  EXPECT_EQ(Stop(SIGTRAP, PTRACE_EVENT_STOP).group_stop(), 0);
  EXPECT_EQ(Stop(SIGTSTP, PTRACE_EVENT_STOP).group_stop(), SIGTSTP);
  EXPECT_EQ(Stop(SIGTSTP, PTRACE_EVENT_STOP).signal_to_deliver(), 0);
  EXPECT_EQ(Stop(SIGSTOP).group_stop(), 0);  // about to be delivered
}

TEST(WaitStatusTest, EventsHaveTheirNumber) {
  EXPECT_TRUE(Stop(SIGTRAP, PTRACE_EVENT_EXEC).is_exec());
  EXPECT_EQ(Stop(SIGTRAP, PTRACE_EVENT_FORK).event, PTRACE_EVENT_FORK);
  EXPECT_FALSE(Stop(SIGTRAP, PTRACE_EVENT_FORK).is_event_stop());
}

TEST(WaitStatusTest, AThreadIsWaitedForOnce) {
  const pid_t child = fork();
  if (child == 0) _exit(7);
  const std::optional<WaitStatus> end = WaitForThread(child);
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->stopped());
  EXPECT_EQ(WEXITSTATUS(end->raw), 7);
  EXPECT_FALSE(WaitForThread(child).has_value());
}

}  // namespace
}  // namespace hindsight
