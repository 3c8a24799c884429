#include "recorder/session/stop_request.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Program = StopRequest::Program;

TEST(StopRequestTest, TermAndHangupStopAndGoToALaunchedProgram) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    StopRequest request(Program::kLaunched);
    EXPECT_FALSE(request.requested());
    raise(signal);
    EXPECT_EQ(request.signal(), signal);
    EXPECT_EQ(request.signal_for_program(), signal);
  }
}

TEST(StopRequestTest, FirstInterruptIsTheLaunchedProgramsOwn) {
  for (const int signal : {SIGINT, SIGQUIT}) {
    StopRequest request(Program::kLaunched);
    raise(signal);
    EXPECT_FALSE(request.requested());
    raise(signal);
    EXPECT_EQ(request.signal(), signal);
    EXPECT_EQ(request.signal_for_program(), 0);
  }
}

TEST(StopRequestTest, FirstInterruptStopsIfAttached) {
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
    StopRequest request(Program::kAttached);
    raise(signal);
    EXPECT_EQ(request.signal(), signal);
    EXPECT_EQ(request.signal_for_program(), 0);
  }
}

TEST(StopRequestTest, FirstRequestCounts) {
  StopRequest request(Program::kLaunched);
  raise(SIGHUP);
  raise(SIGTERM);
  EXPECT_EQ(request.signal(), SIGHUP);
}

TEST(StopRequestTest, IgnoredSignalsStayIgnored) {
  signal(SIGHUP, SIG_IGN);
  {
    StopRequest request(Program::kAttached);
    raise(SIGHUP);
    EXPECT_FALSE(request.requested());
  }
  signal(SIGHUP, SIG_DFL);
}

TEST(StopRequestTest, WakesFromWaiting) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  StopRequest request(Program::kLaunched);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(waitpid(child, nullptr, 0), -1);  // a tick
    EXPECT_EQ(errno, EINTR);
  }
  EXPECT_FALSE(request.requested());
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0) {
  }
}

TEST(StopRequestTest, RestoresWhatWas) {
  struct sigaction before, after;
  sigaction(SIGINT, nullptr, &before);
  { StopRequest request(Program::kLaunched); }
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace hindsight
