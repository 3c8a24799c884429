// Records real programs with the engine that translates: what they do must not change, and replay,
// which emulates, must be exact.

#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "keyframes/verify/verify.h"
#include "recorder/record_fixture.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

class RecordTranslatedTest : public RecordTest {
 protected:
  RecordTranslatedTest() {
    options_.engine = EngineKind::kTranslate;
    options_.cpu = CpuModel::kPortable;
  }
};

// A program with its arguments, each a word.
class WholeProgramTest : public RecordTranslatedTest,
                         public testing::WithParamInterface<const char*> {
 protected:
  void ExpectRecordedExactly();
};

void WholeProgramTest::ExpectRecordedExactly() {
  std::vector<std::string> words;
  std::istringstream command(GetParam());
  for (std::string word; command >> word;) words.push_back(word);
  std::string quoted;
  for (const std::string& word : words) quoted += "'" + word + "' ";
  const std::string native = NativeOutput(quoted);
  Record(words);
  EXPECT_EQ(output_, native) << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ASSERT_TRUE(WIFEXITED(result_.wait_status));
  ExpectExact();
}

TEST_P(WholeProgramTest, IsRecordedExactly) { ExpectRecordedExactly(); }

INSTANTIATE_TEST_SUITE_P(
    Of, WholeProgramTest,
    testing::Values("/bin/true", "/bin/ls /", "/bin/cat /etc/passwd", "/usr/bin/sort /etc/passwd",
                    "/usr/bin/md5sum /bin/ls", "/usr/bin/sha256sum /bin/ls",
                    "/usr/bin/factor 1000000007123", "/usr/bin/find /etc/apt",
                    "/bin/gzip -c /bin/ls", "/bin/bzip2 -c /bin/cat",
                    "/usr/bin/perl -e print(1.5**3)", "/usr/bin/sqlite3 :memory: select(1+2)",
                    "/usr/bin/python3 -m calendar 2026", "/usr/bin/gcc --version",
                    "/usr/bin/python3 -c print(sum(map(float.__abs__,map(float,range(9999)))))"));

// Libraries choose what is best on this machine.
TEST_P(WholeProgramTest, IsRecordedExactlyOnTheHostsProcessor) {
  options_.cpu = CpuModel::kHost;
  ExpectRecordedExactly();
}

TEST_F(RecordTranslatedTest, TheProgramSeesItsOwnPartOfTheMap) {
  Record({"/bin/cat", "/proc/self/maps"});
  EXPECT_EQ(output_.find("hindsight"), std::string::npos) << output_;
  EXPECT_NE(output_.find("[stack]"), std::string::npos) << output_;
  EXPECT_LT(std::count(output_.begin(), output_.end(), '\n'), 60) << output_;
  ExpectExact();
}

// The kernel shows it from the stack, which has been moved.
TEST_F(RecordTranslatedTest, TheProgramSeesItsOwnArguments) {
  Record({"/bin/cat", "/proc/self/cmdline"});
  EXPECT_EQ(output_, std::string("/bin/cat\0/proc/self/cmdline\0", 28));
  ExpectExact();
}

TEST_F(RecordTranslatedTest, TheStatusIsTheProgramsOwn) {
  Record({"/usr/bin/perl", "-e", "exit 7"});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 7);
  ExpectExact();
}

TEST_F(RecordTranslatedTest, ShortSegmentsFollowEachOther) {
  options_.light_keyframe_interval = 20'000;
  Record({"/usr/bin/sort", "/etc/passwd"});
  EXPECT_GT(result_.light_keyframes, 5u);
  ExpectExact();
}

TEST_F(RecordTranslatedTest, HandlersOfSignalsRunWhereTheyRan) {
  const std::string program =
      "$SIG{USR1} = sub { $n++ }; kill USR1 => $$ for 1 .. 200; "
      "$SIG{ALRM} = sub { $t++ }; use Time::HiRes qw(ualarm); ualarm(1000, 1000); "
      "1 while $t < 50; ualarm(0); print \"$n\\n\"";
  Record({"/usr/bin/perl", "-e", program});
  EXPECT_EQ(output_, "200\n") << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  EXPECT_GE(Events(EventKind::kSignal).size(), 250u);
  ExpectExact();
}

TEST_F(RecordTranslatedTest, AProgramThatIsKilledIsRecordedUpToThere) {
  Bystander bystander(directory_ + "/out",
                      [this] { kill(std::stoi(Contents(directory_ + "/out")), SIGKILL); });
  Record({"/usr/bin/perl", "-e", "$| = 1; print \"$$\\n\"; 1 while 1"});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  ExpectExact();
}

TEST_F(RecordTranslatedTest, AFaultEndsTheProgramAsItDoesNatively) {
  Record({Program("read_nowhere")});
  ASSERT_TRUE(WIFSIGNALED(result_.wait_status));
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGSEGV);
  ExpectExact();
}

TEST_F(RecordTranslatedTest, RecordingMayEndBeforeTheProgramDoes) {
  options_.max_seconds = 0.5;
  Record({"/usr/bin/perl", "-e", "select undef, undef, undef, 0.2 for 1 .. 5; print \"end\\n\""});
  EXPECT_EQ(output_, "end\n");
  EXPECT_NE(result_.end_reason, "");
  ExpectExact();
}

TEST_F(RecordTranslatedTest, AProgramWhoseTimeIsUpIsKilled) {
  options_.timeout_seconds = 0.5;
  Record({"/usr/bin/perl", "-e", "1 while 1"});
  EXPECT_TRUE(result_.timed_out);
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGKILL);
  ExpectExact();
}

bool HasEnded(pid_t process) {
  const std::string stat = Contents("/proc/" + std::to_string(process) + "/stat");
  return stat.empty() || stat.find(") Z") != std::string::npos;
}

TEST_F(RecordTranslatedTest, AProgramDoesNotOutliveItsRecorder) {
  const std::string output = directory_ + "/pid";
  const pid_t recorder = fork();
  if (recorder == 0) {
    options_.arguments = {"/usr/bin/perl", "-e",
                          "open O, '>', '" + output + "'; print O $$; close O; 1 while 1"};
    (void)RecordProgram(options_);
    _exit(1);
  }
  for (int i = 0; i < 2000 && Contents(output).empty(); ++i) usleep(10'000);
  usleep(50'000);
  const pid_t program = std::stoi(Contents(output));
  EXPECT_FALSE(HasEnded(program));
  kill(recorder, SIGKILL);
  waitpid(recorder, nullptr, 0);
  for (int i = 0; i < 500 && !HasEnded(program); ++i) usleep(10'000);
  EXPECT_TRUE(HasEnded(program));
  auto trace = TraceReader::Open(options_.directory);
  ASSERT_TRUE(trace.ok()) << trace.status();
  auto verified = Verify(**trace);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_TRUE(verified->exact()) << verified->difference;
}

// Nobody sees it happen where memory is used directly.
TEST_F(RecordTranslatedTest, WhatAnotherProcessStoresIsNamedByVerify) {
  options_.light_keyframe_interval = 20'000'000;
  Bystander bystander(directory_ + "/out", [this] {
    int process = 0;
    void* address = nullptr;
    ASSERT_EQ(sscanf(Contents(directory_ + "/out").c_str(), "%d %p", &process, &address), 2);
    int value = 7;
    const iovec from = {&value, sizeof(value)}, to = {address, sizeof(value)};
    EXPECT_EQ(process_vm_writev(process, &from, 1, &to, 1, 0), 4);
  });
  Record({Program("counts_meanwhile")});
  EXPECT_EQ(WEXITSTATUS(result_.wait_status), 7);
  auto trace = TraceReader::Open(options_.directory);
  ASSERT_TRUE(trace.ok()) << trace.status();
  auto verified = Verify(**trace);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_FALSE(verified->exact());
  const std::string address = output_.substr(output_.find("0x"));
  const std::string difference(verified->difference.message());
  EXPECT_TRUE(absl::StrContains(
      difference, absl::StrCat("byte 0x07 at address ", absl::StripAsciiWhitespace(address),
                               ", where this one ends with 0x01")))
      << difference;
}

TEST_F(RecordTranslatedTest, CodeThatChangesIsNeverExecutedAsItWas) {
  const std::string native = NativeOutput(Program("changed_code"));
  Record({Program("changed_code")});
  EXPECT_EQ(output_, native);
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

TEST_F(RecordTranslatedTest, WhatAnotherThreadChangesAllTheTimeCanBeRead) {
  Record({Program("contended_reads"), "thread"});
  EXPECT_EQ(output_, "1 0\n") << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

TEST_F(RecordTranslatedTest, WhatAnotherProcessChangesAllTheTimeCanBeRead) {
  Record({Program("contended_reads")});
  EXPECT_EQ(output_, "1 0\n") << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

TEST_F(RecordTranslatedTest, NoInstructionEndsTheRecording) {
  const std::string native = NativeOutput(Program("odd_instructions"));
  Record({Program("odd_instructions")});
  EXPECT_EQ(output_, native) << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  EXPECT_EQ(WTERMSIG(result_.wait_status), SIGILL);
  ExpectExact();
}

// Threads that are held back at random do what they do otherwise.
TEST_F(RecordTranslatedTest, ThreadsAreDisturbedToFindBugs) {
  const std::string program =
      "import threading\n"
      "total, lock = 0, threading.Lock()\n"
      "def add():\n"
      "  global total\n"
      "  for i in range(300):\n"
      "    with lock: total += i\n"
      "threads = [threading.Thread(target=add) for _ in range(3)]\n"
      "[t.start() for t in threads], [t.join() for t in threads]\n"
      "print(total)";
  options_.chaos = true;
  options_.seed = 5;
  Record({"/usr/bin/python3", "-c", program});
  EXPECT_EQ(output_, "134550\n") << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

TEST_F(RecordTranslatedTest, GeneratedCodeIsExecutedAsItIs) {
  const std::string native = NativeOutput(Program("generated_code"));
  Record({Program("generated_code")});
  EXPECT_EQ(output_, native) << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

TEST_F(RecordTranslatedTest, ProgramsThatCompileWhileTheyRunAreRecorded) {
  const std::string program = "local s = 0; for i = 1, 300000 do s = s + i % 7 end print(s)";
  if (access("/usr/bin/luajit", X_OK) != 0) GTEST_SKIP() << "luajit is not there";
  Record({"/usr/bin/luajit", "-e", program});
  EXPECT_EQ(output_, "899998\n") << errors_;
  EXPECT_EQ(result_.end_reason, "") << errors_;
  ExpectExact();
}

TEST_F(RecordTranslatedTest, WhatItCannotDoIsSaidBefore) {
  options_.arguments = {"/bin/true"};
  options_.bulk_bytes = 1 << 20;
  const auto result = RecordProgram(options_);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("--omit-bulk"), std::string::npos) << result.status();
}

}  // namespace
}  // namespace hindsight
