#include "cli/until_failure.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hindsight {
namespace {

class UntilFailureTest : public ::testing::Test {
 protected:
  UntilFailureTest() {
    std::string path = ::testing::TempDir() + "/until_failure_XXXXXX";
    directory_ = mkdtemp(path.data());
    options_.directory = directory_ + "/trace";
    options_.seed = 100;
  }
  ~UntilFailureTest() override { std::filesystem::remove_all(directory_); }

  // A run leaves its seed where a trace would be.
  void LeaveTrace(const RecordOptions& options) {
    std::filesystem::create_directory(options.directory);
    std::ofstream(options.directory + "/seed") << options.seed;
    std::ofstream(directory_ + "/runs", std::ios::app) << options.seed << " ";
  }
  std::string Read(const std::string& name) {
    std::ifstream file(directory_ + "/" + name);
    std::string text;
    std::getline(file, text);
    return text;
  }

  std::string directory_;
  RecordOptions options_;
};

constexpr int kExited1 = 1 << 8;

TEST_F(UntilFailureTest, KeepsTheTraceOfTheFirstRunThatFails) {
  const RunOutcome outcome = RecordUntilFailure(options_, 0, [this](const RecordOptions& run) {
    LeaveTrace(run);
    return RunOutcome{.wait_status = run.seed >= 103 ? kExited1 : 0};
  });
  EXPECT_EQ(outcome.wait_status, kExited1);
  EXPECT_EQ(outcome.recorder_exit, 0);
  EXPECT_EQ(Read("trace/seed"), "103");
  EXPECT_EQ(Read("runs"), "100 101 102 103 ");
}

TEST_F(UntilFailureTest, WhatIsThereAlreadyIsNotRemoved) {
  std::filesystem::create_directory(options_.directory);
  std::ofstream(options_.directory + "/mine") << "precious";
  const RunOutcome outcome = RecordUntilFailure(options_, 0, [](const RecordOptions&) {
    kill(getppid(), SIGINT);  // which ends the search, and removes the run
    pause();
    return RunOutcome{};
  });
  EXPECT_EQ(outcome.recorder_exit, 125);
  EXPECT_EQ(Read("trace/mine"), "precious");
}

TEST_F(UntilFailureTest, KeepsNothingIfNoneFails) {
  const RunOutcome outcome = RecordUntilFailure(options_, 5, [this](const RecordOptions& run) {
    LeaveTrace(run);
    return RunOutcome{};
  });
  EXPECT_FALSE(outcome.failed());
  EXPECT_EQ(outcome.recorder_exit, 0);
  EXPECT_EQ(Read("runs"), "100 101 102 103 104 ");
  EXPECT_FALSE(std::filesystem::exists(options_.directory));
}

TEST_F(UntilFailureTest, ATimeoutIsAFailure) {
  const RunOutcome outcome = RecordUntilFailure(options_, 5, [this](const RecordOptions& run) {
    LeaveTrace(run);
    return RunOutcome{.timed_out = run.seed == 101};
  });
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_EQ(Read("trace/seed"), "101");
}

TEST_F(UntilFailureTest, EndsWhereRecordingFails) {
  const RunOutcome outcome = RecordUntilFailure(options_, 0, [this](const RecordOptions& run) {
    LeaveTrace(run);
    return RunOutcome{.recorder_exit = run.seed == 102 ? 127 : 0};
  });
  EXPECT_EQ(outcome.recorder_exit, 127);
  EXPECT_EQ(Read("runs"), "100 101 102 ");
}

TEST_F(UntilFailureTest, EndsWhereTheRecorderIsKilled) {
  const RunOutcome outcome = RecordUntilFailure(options_, 0, [](const RecordOptions& run) {
    if (run.seed == 101) raise(SIGKILL);
    return RunOutcome{};
  });
  EXPECT_EQ(outcome.recorder_exit, 125);
}

TEST_F(UntilFailureTest, ASignalEndsTheSearchAndRemovesTheTrace) {
  const RunOutcome outcome = RecordUntilFailure(options_, 0, [this](const RecordOptions& run) {
    LeaveTrace(run);
    if (run.seed == 102) {
      kill(getppid(), SIGINT);
      while (true) pause();
    }
    return RunOutcome{};
  });
  EXPECT_EQ(outcome.recorder_exit, 128 + SIGINT);
  EXPECT_FALSE(std::filesystem::exists(options_.directory));
}

TEST_F(UntilFailureTest, EachRunReadsTheSameInput) {
  std::ofstream(directory_ + "/input") << "abc";
  ASSERT_NE(freopen((directory_ + "/input").c_str(), "r", stdin), nullptr);
  const RunOutcome outcome = RecordUntilFailure(options_, 3, [](const RecordOptions&) {
    char byte = 0;
    return RunOutcome{.wait_status =
                          read(STDIN_FILENO, &byte, 1) == 1 && byte == 'a' ? 0 : kExited1};
  });
  EXPECT_FALSE(outcome.failed());
}

TEST(FailureTextTest, SaysHowTheRunEndedAndItsSeed) {
  EXPECT_EQ(FailureText({.wait_status = kExited1}, 7), "exited with status 1, seed 7");
  EXPECT_EQ(FailureText({.wait_status = SIGABRT}, 7), "killed by signal 6 (Aborted), seed 7");
  EXPECT_EQ(FailureText({.timed_out = true}, 7), "killed by --timeout, seed 7");
}

}  // namespace
}  // namespace hindsight
