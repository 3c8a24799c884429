#include "recorder/ptrace/exec_hold.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

ExecHold::State PollUntilSomething(ExecHold* hold) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ExecHold::State state;
  do {
    state = hold->Poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (state == ExecHold::State::kNotYet && std::chrono::steady_clock::now() < deadline);
  return state;
}

// A process whose child executes a program once it gets a byte, and which ends with the child's
// status, or the signal that has ended it.
class ExecHoldTest : public testing::Test {
 protected:
  ExecHoldTest() {
    EXPECT_EQ(pipe(to_child_), 0);
    EXPECT_EQ(pipe(from_parent_), 0);
    parent_ = fork();
    if (parent_ == 0) RunParent();
    EXPECT_EQ(read(from_parent_[0], &child_, sizeof(child_)), ssize_t{sizeof(child_)});
  }
  ~ExecHoldTest() override {
    if (parent_ <= 0) return;
    kill(child_, SIGKILL);
    kill(parent_, SIGKILL);
    waitpid(parent_, nullptr, 0);
  }

  void LetChildExecute() { EXPECT_EQ(write(to_child_[1], "x", 1), 1); }

  // What the parent learns, within a while; -1: nothing.
  int StatusThatParentGets() {
    for (int i = 0; i < 30'000; ++i) {
      int status;
      if (waitpid(parent_, &status, WNOHANG) == parent_) {
        parent_ = 0;
        return WEXITSTATUS(status);
      }
      usleep(1000);
    }
    return -1;
  }

  pid_t child_ = 0;

 private:
  [[noreturn]] void RunParent() {
    const pid_t child = fork();
    if (child == 0) {
      char go;
      if (read(to_child_[0], &go, 1) == 1) execl("/bin/true", "true", nullptr);
      _exit(99);
    }
    int status = 0;
    if (write(from_parent_[1], &child, sizeof(child)) != ssize_t{sizeof(child)}) _exit(98);
    waitpid(child, &status, 0);
    _exit(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }

  pid_t parent_ = 0;
  int to_child_[2], from_parent_[2];
};

TEST_F(ExecHoldTest, HoldsAtTheFirstInstruction) {
  const std::unique_ptr<ExecHold> hold = ExecHold::Take(child_, child_);
  ASSERT_NE(hold, nullptr);
  EXPECT_EQ(hold->Poll(), ExecHold::State::kNotYet);
  LetChildExecute();
  ASSERT_EQ(PollUntilSomething(hold.get()), ExecHold::State::kAtStart);
  hold->Release();
  DetachOrTakeEnd(child_);
  EXPECT_EQ(StatusThatParentGets(), 0);
}

TEST_F(ExecHoldTest, TheParentLearnsThatOneThatIsHeldWasKilled) {
  const std::unique_ptr<ExecHold> hold = ExecHold::Take(child_, child_);
  ASSERT_NE(hold, nullptr);
  kill(child_, SIGKILL);
  EXPECT_EQ(PollUntilSomething(hold.get()), ExecHold::State::kGone);
  hold->Release();
  EXPECT_EQ(StatusThatParentGets(), SIGKILL);
}

TEST_F(ExecHoldTest, TheParentLearnsThatOneAtTheFirstInstructionWasKilled) {
  const std::unique_ptr<ExecHold> hold = ExecHold::Take(child_, child_);
  ASSERT_NE(hold, nullptr);
  LetChildExecute();
  ASSERT_EQ(PollUntilSomething(hold.get()), ExecHold::State::kAtStart);
  hold->Release();
  kill(child_, SIGKILL);
  DetachOrTakeEnd(child_);
  EXPECT_EQ(StatusThatParentGets(), SIGKILL);
}

TEST_F(ExecHoldTest, OneThatIsNotHeldAnyMoreGoesOn) {
  ExecHold::Take(child_, child_).reset();
  LetChildExecute();
  EXPECT_EQ(StatusThatParentGets(), 0);
}

}  // namespace
}  // namespace hindsight
