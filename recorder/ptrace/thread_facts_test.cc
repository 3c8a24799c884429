#include "recorder/ptrace/thread_facts.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "recorder/ptrace/attach.h"

namespace hindsight {
namespace {

TEST(ThreadFactsTest, LibcRegistersRseq) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  auto threads = AttachToProcess(child, 0);
  ASSERT_TRUE(threads.ok()) << threads.status();
  EXPECT_TRUE(Is64Bit(child));
#if __GLIBC_PREREQ(2, 35)
  EXPECT_NE(RseqOf(child), 0u);
#endif
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(Is64Bit(child));
  EXPECT_EQ(RseqOf(child), 0u);
}

}  // namespace
}  // namespace hindsight
