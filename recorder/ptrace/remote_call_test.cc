#include "recorder/ptrace/remote_call.h"

#include <errno.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "gtest/gtest.h"
#include "recorder/ptrace/launch.h"

namespace hindsight {
namespace {

user_regs_struct RegistersOf(pid_t thread) {
  user_regs_struct registers = {};
  EXPECT_EQ(ptrace(PTRACE_GETREGS, thread, nullptr, &registers), 0);
  return registers;
}

TEST(RemoteCallTest, CallIsMadeAndLeavesNoTrace) {
  auto pid = LaunchTraced({"/bin/true", {"true"}});
  ASSERT_TRUE(pid.ok()) << pid.status();
  const user_regs_struct before = RegistersOf(*pid);
  auto result = CallInThread(*pid, SYS_getpid, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, *pid);
  EXPECT_EQ(*CallInThread(*pid, SYS_close, {1234}), -EBADF);
  const user_regs_struct after = RegistersOf(*pid);
  EXPECT_EQ(std::memcmp(&before, &after, sizeof(before)), 0);
  kill(*pid, SIGKILL);
  waitpid(*pid, nullptr, 0);
  EXPECT_EQ(CallInThread(*pid, SYS_getpid, {}).status().code(), absl::StatusCode::kUnavailable);
}

// The read that it waits in is made again afterwards.
TEST(RemoteCallTest, InterruptedCallGoesOn) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    _exit(read(fds[0], &byte, 1) == 1 ? byte : 99);
  }
  usleep(20'000);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, child, nullptr, nullptr), 0);
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(child, nullptr, __WALL), child);
  EXPECT_EQ(*CallInThread(child, SYS_getppid, {}), getpid());
  ASSERT_EQ(ptrace(PTRACE_DETACH, child, nullptr, nullptr), 0);
  ASSERT_EQ(write(fds[1], "\7", 1), 1);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(RemoteCallTest, AStopByJobControlThatComesMeanwhileIsNotLost) {
  auto pid = LaunchTraced({"/bin/true", {"true"}});
  ASSERT_TRUE(pid.ok()) << pid.status();
  kill(*pid, SIGSTOP);
  EXPECT_EQ(*CallInThread(*pid, SYS_getppid, {}), getpid());
  ASSERT_EQ(ptrace(PTRACE_DETACH, *pid, nullptr, nullptr), 0);
  int status;
  ASSERT_EQ(waitpid(*pid, &status, WUNTRACED), *pid);
  EXPECT_TRUE(WIFSTOPPED(status));
  kill(*pid, SIGCONT);
  ASSERT_EQ(waitpid(*pid, &status, 0), *pid);
  EXPECT_EQ(status, 0);
}

TEST(RemoteCallTest, AnEndThatComesMeanwhileIsLeftToWhoWaitsForIt) {
  auto pid = LaunchTraced({"/bin/true", {"true"}});
  ASSERT_TRUE(pid.ok()) << pid.status();
  kill(*pid, SIGKILL);
  EXPECT_EQ(CallInThread(*pid, SYS_getpid, {}).status().code(), absl::StatusCode::kUnavailable);
  int status;
  ASSERT_EQ(waitpid(*pid, &status, 0), *pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(RemoteCallTest, AddressesAreRandomAgain) {
  auto pid = LaunchTraced({"/bin/true", {"true"}});
  ASSERT_TRUE(pid.ok()) << pid.status();
  const int64_t at_first = *CallInThread(*pid, SYS_personality, {0xffffffff});
  EXPECT_NE(at_first & ADDR_NO_RANDOMIZE, 0);
  if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0) GTEST_SKIP() << "nor are ours";
  EXPECT_TRUE(RandomizeAddressesAgain(*pid).ok());
  EXPECT_EQ(*CallInThread(*pid, SYS_personality, {0xffffffff}), at_first & ~ADDR_NO_RANDOMIZE);
  EXPECT_TRUE(RandomizeAddressesAgain(*pid).ok());
  kill(*pid, SIGKILL);
  waitpid(*pid, nullptr, 0);
}

}  // namespace
}  // namespace hindsight
