// Records programs with threads that run truly at once, and the processes that they make, with the
// engine that translates: what they do must not change, and replay must be exact.

#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keyframes/verify/verify.h"
#include "recorder/record_fixture.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

class RecordTranslatedTasksTest : public RecordTest {
 protected:
  RecordTranslatedTasksTest() {
    options_.engine = EngineKind::kTranslate;
    options_.cpu = CpuModel::kPortable;
  }

  void ExpectComplete() {
    EXPECT_EQ(result_.end_reason, "") << errors_;
    EXPECT_TRUE(WIFEXITED(result_.wait_status));
    ExpectAllExact();
  }
  // The traces of all processes.
  void ExpectAllExact() {
    processes_ = *ListProcesses(options_.directory, nullptr);
    for (const ProcessInfo& process : processes_) {
      const auto trace = TraceReader::Open(process.files);
      ASSERT_TRUE(trace.ok()) << trace.status();
      const auto verified = Verify(**trace);
      ASSERT_TRUE(verified.ok()) << verified.status();
      EXPECT_TRUE(verified->exact()) << verified->difference;
      EXPECT_TRUE(CheckChildren(**trace, processes_).ok());
    }
  }
  // Of the processes, but the first one, ascending.
  std::vector<int> ChildStatuses() const {
    std::vector<int> statuses;
    for (size_t i = 1; i < processes_.size(); ++i) {
      statuses.push_back(processes_[i].manifest.exit_status);
    }
    std::sort(statuses.begin(), statuses.end());
    return statuses;
  }

  std::vector<ProcessInfo> processes_;
};

class TokensTest : public RecordTranslatedTasksTest, public testing::WithParamInterface<int> {};

TEST_P(TokensTest, AreHandedOver) {
  Record({Program("tokens"), std::to_string(GetParam())});
  EXPECT_EQ(output_, "6000\n");
  EXPECT_EQ(result_.threads, 4u);
  ExpectComplete();
  EXPECT_FALSE(Events(EventKind::kSlice).empty());
}

INSTANTIATE_TEST_SUITE_P(InAllWays, TokensTest, testing::Values(0, 1, 2));

TEST_F(RecordTranslatedTasksTest, InstructionsAreNotOrderedIfNobodyAskedForIt) {
  options_.memory_model = MemoryModel::kKernel;
  Record({Program("tokens"), "1"});
  EXPECT_FALSE(Events(EventKind::kSlice).empty());
  ExpectComplete();
}

// What threads of the program before have told is often read when the next one is there.
TEST_F(RecordTranslatedTasksTest, AThreadOfAChildMayExecuteAnotherProgram) {
  const std::string native = NativeOutput(Program("thread_lives") + " programs");
  Record({Program("thread_lives"), "programs"});
  EXPECT_EQ(output_, native) << errors_;
  ExpectComplete();
  EXPECT_EQ(processes_.size(), 11u);
}

TEST_F(RecordTranslatedTasksTest, ATaskThatSharesMoreThanIsRecordedIsNamed) {
  Record({Program("thread_lives"), "task"});
  EXPECT_EQ(output_, "6\n") << errors_;
  EXPECT_THAT(result_.end_reason, testing::HasSubstr("shares its memory and its signal handlers"));
  ExpectAllExact();
}

TEST_F(RecordTranslatedTasksTest, AnInstructionThatIsNotRecordedIsNamed) {
  Record({Program("thread_lives"), "int80"});
  EXPECT_EQ(output_, "1\n") << errors_;
  EXPECT_THAT(result_.end_reason, testing::HasSubstr("(int 0x80 at 0x"));
  ExpectAllExact();
}

TEST_F(RecordTranslatedTasksTest, ThreadsOfAProgramThatIsKilledEndWhereTheyWere) {
  Bystander bystander(directory_ + "/out",
                      [this] { kill(std::stoi(Contents(directory_ + "/out")), SIGKILL); });
  Record({"/usr/bin/python3", "-c",
          "import threading, os\n"
          "def spin():\n"
          "  while True: pass\n"
          "for i in range(3): threading.Thread(target=spin).start()\n"
          "print(os.getpid(), flush=True)\n"});
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  EXPECT_EQ(result_.threads, 4u);
  EXPECT_EQ(Events(EventKind::kThreadExit).size(), 4u);
  ExpectAllExact();
}

TEST_F(RecordTranslatedTasksTest, ForkedProcessesAreRecorded) {
  Record({"/usr/bin/perl", "-e",
          "my $p = fork; if (!$p) { exit 3 } waitpid $p, 0; print $? >> 8, \"\\n\"; "
          "$p = fork; if (!$p) { kill KILL => $$ } waitpid $p, 0; print $? & 127, \"\\n\""});
  EXPECT_EQ(output_, "3\n9\n") << errors_;
  EXPECT_EQ(result_.processes, 3u);
  ExpectComplete();
  EXPECT_EQ(ChildStatuses(), (std::vector<int>{9, 3 << 8}));
}

TEST_F(RecordTranslatedTasksTest, ProgramsThatAreExecutedGoOnInTheSameTrace) {
  Record({"/bin/sh", "-c", "echo before; exec echo after"});
  EXPECT_EQ(output_, "before\nafter\n") << errors_;
  EXPECT_EQ(result_.processes, 1u);
  ExpectComplete();
  ASSERT_EQ(Events(EventKind::kExec).size(), 1u);
  EXPECT_NE(Events(EventKind::kExec)[0].text.find("echo"), std::string::npos);
}

TEST_F(RecordTranslatedTasksTest, PipelinesOfProgramsAreRecorded) {
  Record({"/bin/sh", "-c", "ls / | sort -r | wc -l; false; cat /etc/passwd | md5sum"});
  EXPECT_EQ(output_, NativeOutput("sh -c 'ls / | sort -r | wc -l; cat /etc/passwd | md5sum'"));
  EXPECT_EQ(result_.processes, 6u);
  ExpectComplete();
}

TEST_F(RecordTranslatedTasksTest, ProcessesOfVforkAreRecorded) {
  Record({"/usr/bin/python3", "-c",
          "import subprocess\n"
          "for i in range(3): print(subprocess.call(['/bin/sh', '-c', 'exit %d' % i]))\n"
          "try: subprocess.call(['/no/such/program'])\n"
          "except FileNotFoundError: print('none')\n"});
  EXPECT_EQ(output_, "0\n1\n2\nnone\n") << errors_;
  ExpectComplete();
}

TEST_F(RecordTranslatedTasksTest, AProcessMayOutliveTheProgram) {
  options_.wait_for_all = true;
  Record({"/bin/sh", "-c", "(sleep 0.5; exit 4) & exit 2"});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 2);
  EXPECT_EQ(result_.processes_left, 0u);
  ExpectComplete();
  EXPECT_EQ(ChildStatuses(), (std::vector<int>{0, 4 << 8}));
}

TEST_F(RecordTranslatedTasksTest, WhoOutlivesTheRecordingGoesOn) {
  const std::string late = directory_ + "/late";
  Record({"/bin/sh", "-c", "(sleep 4; echo late > " + late + ") & exit 2"});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 2);
  EXPECT_GE(result_.processes_left, 1u);
  ExpectAllExact();
  for (int i = 0; i < 800 && Contents(late).empty(); ++i) usleep(10'000);
  EXPECT_EQ(Contents(late), "late\n");
}

TEST_F(RecordTranslatedTasksTest, ChildrenMayBeLeftAlone) {
  options_.children = ChildPolicy::kNone;
  Record({"/usr/bin/perl", "-e",
          "print `echo child`; exit 1 if !fork; wait; print $? >> 8, \"\\n\"; exec 'echo', 'x'"});
  EXPECT_EQ(output_, "child\n1\nx\n") << errors_;
  EXPECT_EQ(result_.processes, 1u);
  ExpectComplete();
}

}  // namespace
}  // namespace hindsight
