#include "recorder/emulate/thread/tracee_stops.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <optional>

#include "recorder/ptrace/true_process.h"

namespace hindsight {
namespace {

bool KeepWaiting() { return true; }
bool GiveUp() { return false; }

class TraceeStopsTest : public testing::Test {
 protected:
  void SetUp() override {
    tracee_ = LaunchTrue();
    ASSERT_NE(tracee_, nullptr);
    scheduling_.emplace(tracee_->process(), tracee_->thread());
    stops_.emplace(tracee_.get(), &*scheduling_);
  }

  std::unique_ptr<Tracee> tracee_;
  std::optional<ThreadScheduling> scheduling_;
  std::optional<TraceeStops> stops_;
};

TEST_F(TraceeStopsTest, AReportedStopIsTakenOnce) {
  EXPECT_FALSE(stops_->reported());
  ASSERT_TRUE(tracee_->Resume(ResumeHow::kSyscall));
  int status = 0;
  ASSERT_EQ(waitpid(tracee_->thread(), &status, __WALL), tracee_->thread());
  stops_->Report(status);
  EXPECT_TRUE(stops_->reported());
  const std::optional<TraceeStop> stop = stops_->TakeReported();
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->kind, TraceeStopKind::kSyscall);
  EXPECT_FALSE(stops_->TakeReported().has_value());
}

TEST_F(TraceeStopsTest, ABusyThreadIsWaitedFor) {
  ASSERT_TRUE(tracee_->Resume(ResumeHow::kSyscall));
  const std::optional<TraceeStop> stop = stops_->Await(KeepWaiting, [] {});
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->kind, TraceeStopKind::kSyscall);
}

TEST_F(TraceeStopsTest, NobodyWaitsIfItIsNotWanted) {
  EXPECT_FALSE(stops_->Await(GiveUp, [] {}).has_value());
}

TEST_F(TraceeStopsTest, AStepIsWaitedFor) {
  const TraceeStop stop = stops_->ResumeAndWait(ResumeHow::kStep, 0, [] {});
  EXPECT_EQ(stop.kind, TraceeStopKind::kStepped);
}

TEST_F(TraceeStopsTest, AThreadThatHasEndedCannotBeStopped) {
  kill(tracee_->process(), SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(tracee_->thread(), &status, __WALL), tracee_->thread());
  stops_->Report(status);
  EXPECT_FALSE(stops_->StopInCall());
}

}  // namespace
}  // namespace hindsight
