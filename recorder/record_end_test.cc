// How recordings end, and whose turn it is meanwhile.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "recorder/record_fixture.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

using std::chrono::milliseconds;

TEST_F(RecordTest, TerminationIsPassedOn) {
  Bystander bystander(directory_ + "/out", [] { kill(getpid(), SIGTERM); });
  Record({"bash", "-c", "trap 'echo caught; exit 3' TERM; echo ready; while :; do :; done"});
  EXPECT_EQ(output_, "ready\ncaught\n");
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 3);
  ExpectExact();
}

TEST_F(RecordTest, StoppedProgramsContinue) {
  Bystander bystander(directory_ + "/out", [this] {
    const pid_t program = std::stoi(Contents(directory_ + "/out"));
    kill(program, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(50));
    kill(program, SIGCONT);
    kill(program, SIGTERM);
  });
  Record({"bash", "-c", "trap 'exit 6' TERM; echo $$; while :; do :; done"});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 6);
  ExpectExact();
}

TEST_F(RecordTest, KilledProgramsEndTheRecording) {
  Bystander bystander(directory_ + "/out",
                      [this] { kill(std::stoi(Contents(directory_ + "/out")), SIGKILL); });
  Record({"bash", "-c", "echo $$; while :; do :; done"});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  ExpectExact();
}

// The kernel keeps the end of the first thread back until the other one has been waited for.
class KilledThreadsTest : public RecordTest, public testing::WithParamInterface<const char*> {};

TEST_P(KilledThreadsTest, EndTheRecording) {
  Bystander bystander(directory_ + "/out", [this] {
    std::this_thread::sleep_for(milliseconds(300));
    kill(std::stoi(Contents(directory_ + "/out")), SIGKILL);
  });
  Record({Program("killed_threads"), GetParam()});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  ExpectExact();
}

INSTANTIATE_TEST_SUITE_P(WhileTheFirst, KilledThreadsTest, testing::Values("computes", "int80"));

// Which processes recording lasts for.

TEST_F(RecordTest, EndsWithTheProgramAndLeavesTheRestAlone) {
  const std::string late = directory_ + "/late";
  Record({"sh", "-c", "{ sleep 1; echo late > " + late + "; } & echo done; exit 4"});
  EXPECT_EQ(output_, "done\n");
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 4);
  EXPECT_EQ(result_.end_reason, "");
  EXPECT_GE(result_.processes_left, 1u);
  EXPECT_FALSE(std::filesystem::exists(late));
  ExpectExact();
  for (int i = 0; i < 1000 && Contents(late).empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(Contents(late), "late\n");
}

TEST_F(RecordTest, EndOfAProgramThatIsNotRecordedItselfIsReported) {
  options_.children = ChildPolicy::kOnly;
  options_.only_program = "true";
  Record({"sh", "-c", "/bin/true; exit 7"});
  ASSERT_TRUE(WIFEXITED(result_.wait_status));
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 7);
  EXPECT_EQ(result_.processes, 1u);
  ExpectExact();
}

TEST_F(RecordTest, ProgramThatIsNotRecordedItselfMayBeKilled) {
  options_.children = ChildPolicy::kOnly;
  options_.only_program = "true";
  Record({"sh", "-c", "/bin/true; kill -KILL $$"});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  ExpectExact();
}

// Its recorded helpers are given an instant more, as those of a recorded program are.
TEST_F(RecordTest, EndsWithAProgramThatIsNotRecordedItself) {
  options_.children = ChildPolicy::kOnly;
  options_.only_program = "sleep";
  const auto begun = std::chrono::steady_clock::now();
  Record({"sh", "-c", "sleep 30 & echo done; exit 3"});
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 3);
  EXPECT_EQ(result_.processes_left, 1u);
}

TEST_F(RecordTest, WaitsForAllIfAskedTo) {
  options_.wait_for_all = true;
  const std::string late = directory_ + "/late";
  Record({"sh", "-c", "{ sleep 1; echo late > " + late + "; } & echo done; exit 4"});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 4);
  EXPECT_EQ(result_.processes_left, 0u);
  EXPECT_EQ(Contents(late), "late\n");
  ExpectExact();
}

TEST_F(RecordTest, OnceTheProgramHasEndedTheFirstInterruptIsForTheRecorder) {
  options_.wait_for_all = true;
  Bystander bystander(directory_ + "/out", [] {
    std::this_thread::sleep_for(milliseconds(700));
    kill(getpid(), SIGINT);
  });
  const auto begun = std::chrono::steady_clock::now();
  Record({"sh", "-c", "sleep 30 & echo done"});
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 0);
  ExpectExact();
}

// A turn that did would leave the others in doubt of what the call is going to store, and the
// thread would need another turn just to begin it.
TEST_F(RecordTest, NoTurnEndsBetweenACallAndItsBeginning) {
  Record({Program("barriers")});
  std::set<std::pair<int32_t, uint64_t>> begun;
  for (const ProcessEvent& slice : Events(EventKind::kSlice)) {
    EXPECT_TRUE(begun.emplace(slice.thread, slice.count).second)
        << "thread " << slice.thread << " does nothing from " << slice.count << " on";
  }
  EXPECT_GT(begun.size(), 50u);
  ExpectExact();
}

TEST_F(RecordTest, AThreadThatOnlyMakesCallsGivesOthersTurns) {
  Record({Program("calls_beside")});
  std::map<int32_t, int> turns;
  for (const ProcessEvent& slice : Events(EventKind::kSlice)) ++turns[slice.thread];
  ASSERT_EQ(turns.size(), 2u);
  // The calls take half a second or more, a turn at most 16 ms.
  for (const auto& [thread, count] : turns) EXPECT_GT(count, 15) << "thread " << thread;
  ExpectExact();
}

}  // namespace
}  // namespace hindsight
