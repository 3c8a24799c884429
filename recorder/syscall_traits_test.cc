#include "recorder/syscall_traits.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(SyscallTraitsTest, TellsThreadsFromProcesses) {
  const uint64_t thread[6] = {CLONE_VM | CLONE_THREAD | CLONE_SIGHAND};
  const uint64_t process[6] = {SIGCHLD};
  EXPECT_EQ(TaskMadeBy(SYS_clone, thread, 0), NewTask::kThread);
  EXPECT_EQ(TaskMadeBy(SYS_clone, process, 0), NewTask::kProcess);
  EXPECT_EQ(TaskMadeBy(SYS_clone3, process, CLONE_THREAD), NewTask::kThread);
  EXPECT_EQ(TaskMadeBy(SYS_vfork, process, 0), NewTask::kProcess);
  EXPECT_EQ(TaskMadeBy(SYS_read, thread, 0), NewTask::kNone);
}

TEST(SyscallTraitsTest, KnowsRestartCodes) {
  EXPECT_TRUE(IsRestartCode(-512));
  EXPECT_TRUE(IsRestartCode(-516));
  EXPECT_FALSE(IsRestartCode(-515));
  EXPECT_FALSE(IsRestartCode(-4));
  EXPECT_FALSE(IsRestartCode(512));
}

}  // namespace
}  // namespace hindsight
