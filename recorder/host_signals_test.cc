#include "recorder/host_signals.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(HostSignalsTest, TicksPassesOnAndRestores) {
  struct sigaction before, after;
  sigaction(SIGINT, nullptr, &before);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  {
    HostSignals signals(child);
    raise(SIGINT);   // ignored
    raise(SIGQUIT);  // ignored
    int status;
    EXPECT_EQ(waitpid(child, &status, 0), -1);  // a tick
    EXPECT_EQ(errno, EINTR);
    raise(SIGTERM);  // the child's
    while (waitpid(child, &status, 0) < 0) {
    }
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGTERM);
  }
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace hindsight
