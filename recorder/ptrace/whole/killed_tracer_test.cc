// Whoever stops a process and has its threads make calls may be killed at any instant: the process
// goes on as if nothing had been.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/whole/process_copy.h"
#include "recorder/ptrace/whole/thread_state.h"
#include "recorder/ptrace/whole/whole_fixture.h"
#include "tracefmt/kernel_state.h"

namespace hindsight {
namespace {

// A tracer that does nothing else, until it is killed.
pid_t StartTracer(pid_t process) {
  const pid_t tracer = fork();
  if (tracer != 0) return tracer;
  Stragglers stragglers;
  while (true) {
    auto stop = ProcessStop::Make(process, std::chrono::seconds(1), &stragglers);
    if (!stop.ok()) continue;
    KernelState state;
    for (const ThreadMoment& moment : (*stop)->Read()) {
      state.threads.push_back(ReadThreadState(moment.thread));
    }
    AskThreads(**stop, &state);
    ProcessCopy::Make(**stop).IgnoreError();
  }
}

void KillAtAnyInstant(const std::vector<std::string>& arguments, int rounds) {
  RunningProgram program(arguments, false);
  ASSERT_NE(program.ReadLine(), "");
  std::srand(3);
  for (int i = 0; i < rounds; ++i) {
    const pid_t tracer = StartTracer(program.child());
    usleep(static_cast<useconds_t>(2000 + std::rand() % 10'000));
    kill(tracer, SIGKILL);
    waitpid(tracer, nullptr, 0);
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(program.child()), &ended, WEXITED | WNOHANG | WNOWAIT);
    ASSERT_EQ(ended.si_pid, 0) << "signal " << ended.si_status << ", round " << i;
  }
  for (const pid_t thread : ThreadsOf(program.child())) {
    EXPECT_EQ(sched_getscheduler(thread), SCHED_OTHER) << thread;
  }
  // Calls that say EINTR when they are disturbed were; and the helper that makes copies became a
  // child like none that programs know (__WALL).
  int status;
  std::istringstream out(program.Finish(&status));
  EXPECT_TRUE(WIFEXITED(status)) << status;
  int other = 0;
  for (std::string line; std::getline(out, line);) {
    const bool complaint = absl::StrContains(line, ": ");
    if (!complaint || absl::EndsWith(line, ": Interrupted system call")) continue;
    if (absl::StartsWith(line, "a child: ")) continue;
    ADD_FAILURE() << line;
    ++other;
  }
  EXPECT_EQ(other, 0);
}

TEST(KilledTracerTest, MomentsGoOn) {
  KillAtAnyInstant({TestProgram("moments"), "3", "2000"}, 200);
}

TEST(KilledTracerTest, BusyThreadsGoOn) { KillAtAnyInstant({TestProgram("busy_threads")}, 200); }

TEST(KilledTracerTest, KnownStateStays) { KillAtAnyInstant({TestProgram("known_state")}, 200); }

}  // namespace
}  // namespace hindsight
