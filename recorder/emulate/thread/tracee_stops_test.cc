#include "recorder/emulate/thread/tracee_stops.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/true_process.h"

namespace hindsight {
namespace {

void NoTick() {}
bool KeepWaiting() { return true; }
bool GiveUp() { return false; }
bool Acts() { return true; }
bool ActsNot() { return false; }

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
  const std::optional<TraceeStop> stop = stops_->Await(KeepWaiting, NoTick, ActsNot);
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->kind, TraceeStopKind::kSyscall);
}

TEST_F(TraceeStopsTest, NobodyWaitsIfItIsNotWanted) {
  EXPECT_FALSE(stops_->Await(GiveUp, NoTick, ActsNot).has_value());
}

// The thread waits in vfork, in the state of one that waits for a disk: for a child that nobody
// resumes.
class UninterruptibleTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto command = LookUpProgram({"/bin/dash", "-c", "/bin/true; exit"});
    ASSERT_TRUE(command.ok()) << command.status();
    auto tracee = Tracee::Launch(*command);
    ASSERT_TRUE(tracee.ok()) << tracee.status();
    tracee_ = *std::move(tracee);
    scheduling_.emplace(tracee_->process(), tracee_->thread());
    stops_.emplace(tracee_.get(), &*scheduling_);
    RunToVfork();
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(tracee_->Resume(ResumeHow::kSyscall));
    ASSERT_FALSE(stops_->Await(KeepWaiting, NoTick, ActsNot).has_value());
    ASSERT_EQ(scheduling_->Read()->state, 'D');
  }

  void RunToVfork() {
    for (TraceeStop stop; stop.kind != TraceeStopKind::kNewTask;) {
      stop = stops_->ResumeAndWait(ResumeHow::kSyscall, 0, NoTick);
      ASSERT_NE(stop.kind, TraceeStopKind::kExited) << "it has not called vfork";
    }
  }

  // How often somebody looked whether it sleeps.
  int Looks(bool (*acts)()) {
    int looks = 0;
    const auto count = [&looks] { ++looks; };
    EXPECT_FALSE(stops_->Await(KeepWaiting, count, acts).has_value());
    return looks;
  }

  std::unique_ptr<Tracee> tracee_;
  std::optional<ThreadScheduling> scheduling_;
  std::optional<TraceeStops> stops_;
};

// However slow the machine is.
TEST_F(UninterruptibleTest, CountsAsAsleepSoon) { EXPECT_LT(Looks(ActsNot), 10); }

TEST_F(UninterruptibleTest, IsWaitedForIfOthersMaySeeWhatItHasDone) {
  const auto begin = std::chrono::steady_clock::now();
  Looks(Acts);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(250));
}

TEST_F(UninterruptibleTest, IsNotWaitedForAgainAndAgain) {
  const auto begin = std::chrono::steady_clock::now();
  while (Looks(Acts) > 100) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  }
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
