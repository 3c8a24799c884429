// Records programs with threads with the engine that translates: what they do, and how they end,
// must not change, and replay must be exact.

#include <signal.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/record_fixture.h"

namespace hindsight {
namespace {

class RecordTranslatedThreadsTest : public RecordTest {
 protected:
  RecordTranslatedThreadsTest() {
    options_.engine = EngineKind::kTranslate;
    options_.cpu = CpuModel::kPortable;
  }

  void ExpectAsNatively(const std::string& program, const std::string& which) {
    const std::string native = NativeOutput(Program(program) + " " + which);
    Record({Program(program), which});
    EXPECT_EQ(output_, native) << errors_;
    EXPECT_EQ(result_.end_reason, "") << errors_;
    ExpectExact();
  }
};

class ThreadLivesTest : public RecordTranslatedThreadsTest,
                        public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, ThreadLivesTest,
                         testing::Values("cancel", "signals", "ends", "blocked", "lock", "replace",
                                         "locks", "serial", "many"));

TEST_P(ThreadLivesTest, AreRecordedExactly) {
  ExpectAsNatively("thread_lives", GetParam());
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 7);
}

TEST_F(RecordTranslatedThreadsTest, WhatOthersStoreAsSoonAsTheyCanIsNotHeldAgainstTheFirst) {
  options_.light_keyframe_interval = options_.full_keyframe_interval = 100'000;
  ExpectAsNatively("thread_lives", "beside");
  EXPECT_GE(result_.full_keyframes, 3u);
}

class ThreadMemoryTest : public RecordTranslatedThreadsTest,
                         public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, ThreadMemoryTest, testing::Values("together", "apart"));

TEST_P(ThreadMemoryTest, IsRecordedExactly) { ExpectAsNatively("thread_memory", GetParam()); }

// Threads that exchange values all the time; the first has them read what others change.
class FullKeyframesTest : public RecordTranslatedThreadsTest,
                          public testing::WithParamInterface<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Of, FullKeyframesTest,
                         testing::Values(std::vector<std::string>{"contended_reads", "thread"},
                                         std::vector<std::string>{"thread_memory", "together"}));

TEST_P(FullKeyframesTest, AreWrittenWhileThreadsRun) {
  const bool reads = GetParam()[0] == "contended_reads";
  options_.light_keyframe_interval = reads ? 500'000 : 20'000;
  options_.full_keyframe_interval = reads ? 5'000'000 : 50'000;
  Record({Program(GetParam()[0]), GetParam()[1]});
  EXPECT_EQ(result_.end_reason, "") << errors_;
  EXPECT_GE(result_.full_keyframes, 3u);
  const std::vector<ProcessEvent> keyframes = Events(EventKind::kFullKeyframe);
  EXPECT_EQ(keyframes.size(), result_.full_keyframes);
  for (size_t i = 1; i < keyframes.size(); ++i) EXPECT_EQ(keyframes[i].arguments.size(), 1u);
  ExpectExact();
}

// How the process ends, as wait(2) reports it.
struct End {
  std::string how;
  int status;
};

class ThreadEndsTest : public RecordTranslatedThreadsTest,
                       public testing::WithParamInterface<End> {};
INSTANTIATE_TEST_SUITE_P(Of, ThreadEndsTest,
                         testing::Values(End{"exit", 5 << 8}, End{"abort", SIGABRT},
                                         End{"fault", SIGSEGV},
                                         End{std::to_string(SIGTERM), SIGTERM},
                                         End{std::to_string(SIGKILL), SIGKILL}, End{"last", 0}));

TEST_P(ThreadEndsTest, AreRecordedExactly) {
  constexpr int kCoreDumped = 0x80;
  Record({Program("thread_ends"), GetParam().how});
  EXPECT_EQ(output_, "begin\n") << errors_;
  EXPECT_EQ(result_.wait_status & ~kCoreDumped, GetParam().status);
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

TEST_F(RecordTranslatedThreadsTest, OneMayExecuteAnotherProgram) {
  options_.children = ChildPolicy::kNone;
  Record({Program("thread_ends"), "exec"});
  EXPECT_EQ(output_, "begin\nreplaced\n") << errors_;
  EXPECT_EQ(result_.wait_status, 0);
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

}  // namespace
}  // namespace hindsight
