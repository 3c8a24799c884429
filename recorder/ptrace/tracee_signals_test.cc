#include "recorder/ptrace/tracee_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <memory>
#include <optional>

#include "recorder/ptrace/launch.h"

namespace hindsight {
namespace {

uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }

// A program stopped before its first instruction, that blocks SIGTRAP and SIGUSR1.
class TraceeSignalsTest : public testing::Test {
 protected:
  void SetUp() override {
    sigset_t blocked, old;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTRAP);
    sigaddset(&blocked, SIGUSR1);
    // The program inherits the test's own mask.
    pthread_sigmask(SIG_BLOCK, &blocked, &old);
    auto pid = LaunchTraced({"/bin/true", {"true"}});
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    ASSERT_TRUE(pid.ok()) << pid.status();
    pid_ = *pid;
    signals_.emplace(pid_, pid_);
  }
  void TearDown() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, __WALL);
  }
  // As the kernel has it.
  uint64_t Mask() const {
    uint64_t mask = 0;
    EXPECT_EQ(ptrace(PTRACE_GETSIGMASK, pid_, sizeof(mask), &mask), 0);
    return mask;
  }

  pid_t pid_ = 0;
  std::optional<TraceeSignals> signals_;
};

TEST_F(TraceeSignalsTest, MaskIsKnownUntilForgotten) {
  EXPECT_FALSE(signals_->known());
  EXPECT_EQ(signals_->mask(), Bit(SIGTRAP) | Bit(SIGUSR1));
  EXPECT_TRUE(signals_->known());
  const uint64_t changed = Bit(SIGUSR2);
  ASSERT_EQ(ptrace(PTRACE_SETSIGMASK, pid_, sizeof(changed), &changed), 0);
  EXPECT_EQ(signals_->mask(), Bit(SIGTRAP) | Bit(SIGUSR1));
  signals_->Forget();
  EXPECT_EQ(signals_->mask(), changed);
}

TEST_F(TraceeSignalsTest, MaskIsPutBack) {
  const uint64_t mask = signals_->mask();
  EXPECT_TRUE(signals_->BlockAll());
  EXPECT_NE(Mask() & Bit(SIGTERM), 0u);
  EXPECT_EQ(signals_->last_mask(), mask);
  EXPECT_TRUE(signals_->PutBack());
  EXPECT_EQ(Mask(), mask);
}

TEST_F(TraceeSignalsTest, OnlySignalsThatAreNotBlockedAreDeliverable) {
  EXPECT_FALSE(signals_->HasDeliverable());
  kill(pid_, SIGUSR1);
  EXPECT_FALSE(signals_->HasDeliverable());
  kill(pid_, SIGUSR2);
  EXPECT_TRUE(signals_->HasDeliverable());
  EXPECT_FALSE(signals_->Catches(SIGUSR2));
}

TEST_F(TraceeSignalsTest, SigtrapIsNotBlockedDuringAStep) {
  const uint64_t mask = signals_->mask();
  signals_->BeforeStep(/*signal=*/0);
  EXPECT_EQ(Mask(), mask & ~Bit(SIGTRAP));
  signals_->AfterStop(/*handler_entry=*/false);
  EXPECT_EQ(Mask(), mask);
}

TEST_F(TraceeSignalsTest, FramesAndHandlersHaveTheProgramsMask) {
  const uint64_t mask = signals_->mask();
  signals_->BeforeStep(SIGUSR2);
  EXPECT_EQ(Mask(), mask);
  const uint64_t of_handler = mask | Bit(SIGUSR2);
  ASSERT_EQ(ptrace(PTRACE_SETSIGMASK, pid_, sizeof(of_handler), &of_handler), 0);
  signals_->AfterStop(/*handler_entry=*/true);
  EXPECT_EQ(Mask(), of_handler);
}

}  // namespace
}  // namespace hindsight
