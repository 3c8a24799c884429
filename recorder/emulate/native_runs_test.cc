#include "recorder/emulate/native_runs.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/launch.h"

namespace hindsight {
namespace {

class FakeClient final : public NativeRuns::Client {
 public:
  void OnReached(pid_t process, absl::Span<const StoppedThread> threads) override {
    reached.push_back(process);
    DetachStopped(process, threads);
  }
  void OnEnded(pid_t process, int wait_status) override {
    ended.push_back(process);
    last_status = wait_status;
  }
  void OnUnrecorded() override { ++unrecorded; }

  std::vector<pid_t> reached, ended;
  int last_status = -1;
  int unrecorded = 0;
};

// Shells, run from their first instruction.
class NativeRunsTest : public ::testing::Test {
 protected:
  void Run(const std::string& script) {
    auto part = RecordedPart::Parse(options_);
    ASSERT_TRUE(part.ok()) << part.status();
    part_ = *std::move(part);
    runs_ = std::make_unique<NativeRuns>(options_, part_.get(), &client_);
    auto command = LookUpProgram({"/bin/sh", "-c", script});
    ASSERT_TRUE(command.ok()) << command.status();
    auto pid = LaunchTraced(*command);
    ASSERT_TRUE(pid.ok()) << pid.status();
    const StoppedThread first = {.thread = *pid};
    runs_->Run(*pid, {&first, 1});
  }
  // Until no process runs natively.
  void Finish() {
    while (!runs_->empty()) ASSERT_TRUE(Wait());
  }
  bool Wait() {
    int status;
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) return errno == EINTR;
    runs_->OnStatus(thread, status);
    runs_->Tick();
    return true;
  }
  void TearDown() override {
    if (runs_ != nullptr) {
      for (const pid_t process : runs_->processes()) kill(process, SIGKILL);
    }
    while (waitpid(-1, nullptr, __WALL) > 0 || errno == EINTR) {
    }
  }

  RecordOptions options_;
  FakeClient client_;
  std::unique_ptr<RecordedPart> part_;
  std::unique_ptr<NativeRuns> runs_;
};

TEST_F(NativeRunsTest, AProcessRunsToItsEnd) {
  options_.start_at = "no_such_function";
  Run("exit 3");
  EXPECT_EQ(client_.unrecorded, 1);
  Finish();
  EXPECT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(WEXITSTATUS(client_.last_status), 3);
  EXPECT_TRUE(client_.reached.empty());
}

TEST_F(NativeRunsTest, ItIsReachedWhenItExecutesTheProgram) {
  options_.children = ChildPolicy::kOnly;
  options_.only_program = "true";
  Run("exec true");
  Finish();
  EXPECT_EQ(client_.reached.size(), 1u);
  EXPECT_TRUE(client_.ended.empty());
}

TEST_F(NativeRunsTest, ItsChildrenRunNativelyAsWell) {
  options_.children = ChildPolicy::kOnly;
  options_.only_program = "true";
  Run("/bin/true; (exit 2); exit 1");
  Finish();
  EXPECT_EQ(client_.reached.size(), 1u);
  EXPECT_EQ(client_.ended.size(), 2u);
  EXPECT_EQ(WEXITSTATUS(client_.last_status), 1);
}

TEST_F(NativeRunsTest, ItRunsOnAloneWhenDetached) {
  options_.start_at = "no_such_function";
  Run("exec sleep 1000");
  const pid_t process = runs_->processes().at(0);
  runs_->RequestStops();
  while (!runs_->all_stopped()) ASSERT_TRUE(Wait());
  runs_->Detach();
  EXPECT_TRUE(runs_->empty());
  kill(process, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, __WALL), process);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(NativeRunsTest, StatusesOfOthersAreNotTaken) {
  options_.start_at = "no_such_function";
  EXPECT_FALSE(NativeRuns(options_, nullptr, &client_).OnStatus(getpid(), 0));
  Run("exit 0");
  EXPECT_FALSE(runs_->OnStatus(getpid(), 0));
  Finish();
}

}  // namespace
}  // namespace hindsight
