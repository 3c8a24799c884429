// A recorder that is killed, or ends before the program, and traces that were damaged afterwards.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/personality.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

Child StartRecording(const std::string& trace, const std::string& program) {
  std::vector<std::string> command = RecordCommand();
  command.insert(command.end(), {"-o", trace, "--", Program(program)});
  return Child::Start(command);
}

// Records a program until it has written `line`, then kills the recorder.
void RecordAndKill(const std::string& trace, const std::string& program, const std::string& line) {
  Child recorder = StartRecording(trace, program);
  size_t position = 0;
  ASSERT_TRUE(recorder.WaitForOut(line, &position)) << recorder.err();
  recorder.Signal(SIGKILL);
  EXPECT_EQ(recorder.Finish().Ending(), "signal 9");
}

// Each tick is 50 ms. What executes at full speed in a second takes several to replay.
int Ticks(int emulated, int translated) {
  return Engine() == TestedEngine::kTranslate ? translated : emulated;
}

void RecordAndKill(const std::string& trace, int ticks) {
  RecordAndKill(trace, "ticks", absl::StrCat("tick ", ticks, "\n"));
}

TEST(InterruptionTest, KilledRecorderLeavesAUsableTrace) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  RecordAndKill(trace, Ticks(60, 24));
  EXPECT_EQ(InfoField(trace, "state"), "interrupted");
  uint64_t instructions = 0;
  EXPECT_TRUE(absl::SimpleAtoi(InfoField(trace, "instructions"), &instructions));
  // Of what there was at most the last second is missing.
  EXPECT_GT(instructions, 1'000'000u);
  ExpectExact(trace);
}

TEST(InterruptionTest, KilledAtOnce) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  RecordAndKill(trace, 1);
  EXPECT_EQ(InfoField(trace, "state"), "interrupted");
  ExpectExact(trace);
}

// What is on disk then are full blocks, and most of them end with the record of a call.
TEST(InterruptionTest, KilledAmongManyCalls) {
  for (int thousands = 3; thousands <= 12; ++thousands) {
    const TempDir directory;
    const std::string trace = directory.File("trace");
    RecordAndKill(trace, "endless_calls", absl::StrCat(thousands, "000 calls\n"));
    EXPECT_EQ(InfoField(trace, "state"), "interrupted");
    ExpectExact(trace);
  }
}

// Of a thread that was about to make a call when the recording ended, the call is made.
TEST(InterruptionTest, AProgramDoesNotNoticeWhenItsRecordingEnds) {
  constexpr int kFirstMs = 15, kLastMs = 400, kStepMs = 35;
  for (int ms = kFirstMs; ms <= kLastMs; ms += kStepMs) {
    const Recorded recorded({Program("checks_its_calls")}, {},
                            {absl::StrCat("--duration=", ms, "ms")});
    ASSERT_EQ(recorded.run().Ending(), "exit 3") << ms << " ms: " << recorded.run().err;
    EXPECT_EQ(recorded.run().out, absl::StrFormat("%x\n", personality(0xffffffff))) << ms << " ms";
    EXPECT_NE(InfoField(recorded.trace(), "endReason"), "") << ms << " ms";
    ExpectExact(recorded.trace());
  }
}

TEST(InterruptionTest, InterruptedTraceIsDebugged) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  RecordAndKill(trace, Ticks(30, 10));
  const GdbResult gdb = RunGdb(trace, R"(
break main
continue
python say("first", function())
python say("end", run("continue"))
python say("work", value('main::work > 0'))
python say("back", run("reverse-continue") + " in " + function())
)");
  EXPECT_EQ(gdb.Answer("first"), "main") << gdb.text;
  EXPECT_EQ(gdb.Answer("end"), "other") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "breakpoint 1 in main") << gdb.text;
  EXPECT_EQ(gdb.Answer("work"), "1") << gdb.text;
}

TEST(InterruptionTest, TraceBeingWrittenIsReadable) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  Child recorder = StartRecording(trace, "ticks");
  size_t position = 0;
  ASSERT_TRUE(recorder.WaitForOut("tick 30\n", &position)) << recorder.err();
  EXPECT_EQ(InfoField(trace, "state"), "recording");
  recorder.SignalGroup(SIGKILL);
}

// What the terminal's Ctrl-C does: the program gets it, and dies as it would have.
TEST(InterruptionTest, CtrlCEndsProgramAndRecordingProperly) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  Child recorder = StartRecording(trace, "ticks");
  size_t position = 0;
  ASSERT_TRUE(recorder.WaitForOut("tick 3\n", &position)) << recorder.err();
  recorder.SignalGroup(SIGINT);
  const std::string ending = recorder.Finish().Ending();
  EXPECT_TRUE(ending == "signal 2" || ending == "exit 130") << ending;
  EXPECT_EQ(InfoField(trace, "state"), "complete");
  ExpectExact(trace);
}

// Damage.

class DamageTest : public ::testing::Test {
 protected:
  // A copy of one recording, to be damaged.
  void SetUp() override {
    static const Recorded* recorded =
        new Recorded({Program("hello")}, {}, {"--light-keyframe-interval=600000"});
    ASSERT_EQ(recorded->run().Ending(), "exit 42") << recorded->run().err;
    trace_ = directory_.File("trace");
    std::filesystem::copy(recorded->trace(), trace_, std::filesystem::copy_options::recursive);
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(trace_)) {
      if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  // Every command says what is wrong, if anything, in few lines (one per file that is damaged by
  // it), and does not crash or hang.
  void ExpectNoCrash(const std::string& what) {
    for (const char* command : {"info", "verify", "dump"}) {
      const ChildResult result = RunHindsight({command, trace_});
      EXPECT_TRUE(result.Ending() == "exit 0" || result.Ending() == "exit 1")
          << what << ": " << command << ": " << result.Ending() << "\n"
          << result.err;
      if (result.Ending() == "exit 1") {
        EXPECT_FALSE(result.err.empty() && result.out.empty()) << what << ": " << command;
      }
      EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 6)
          << what << ": " << command << "\n"
          << result.err;
    }
  }

  TempDir directory_;
  std::string trace_;
};

TEST_F(DamageTest, EveryFileCutShort) {
  for (const std::string& file : Files()) {
    const std::string bytes = ReadFile(file);
    for (const size_t size : {size_t{0}, size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
      WriteFile(file, bytes.substr(0, size));
      ExpectNoCrash(file + " cut to " + std::to_string(size));
    }
    WriteFile(file, bytes);
  }
}

TEST_F(DamageTest, EveryFileWithAChangedByte) {
  for (const std::string& file : Files()) {
    const std::string bytes = ReadFile(file);
    for (const size_t at : {size_t{0}, size_t{5}, bytes.size() / 3, bytes.size() - 2}) {
      std::string changed = bytes;
      changed[std::min(at, bytes.size() - 1)] ^= 0x41;
      WriteFile(file, changed);
      ExpectNoCrash(file + " changed at " + std::to_string(at));
    }
    WriteFile(file, bytes);
  }
}

TEST_F(DamageTest, ChangedSegmentIsNotExact) {
  for (const std::string& file : Files()) {
    if (file.substr(file.size() - 4) != ".seg") continue;
    std::string bytes = ReadFile(file);
    bytes[bytes.size() / 2] ^= 1;
    WriteFile(file, bytes);
    break;
  }
  const ChildResult verify = RunHindsight({"verify", trace_});
  EXPECT_EQ(verify.Ending(), "exit 1") << verify.out << verify.err;
  // It names the file.
  EXPECT_NE((verify.out + verify.err).find(".seg"), std::string::npos) << verify.out << verify.err;
}

TEST_F(DamageTest, MissingFiles) {
  for (const std::string& file : Files()) {
    const std::string bytes = ReadFile(file);
    std::filesystem::remove(file);
    ExpectNoCrash(file + " removed");
    WriteFile(file, bytes);
  }
}

TEST_F(DamageTest, ForeignDirectoryIsOneLine) {
  const TempDir other;
  WriteFile(other.File("letter"), "Dear reader,\n");
  for (const std::string& path : {other.path(), other.File("letter"), other.File("missing")}) {
    const ChildResult info = RunHindsight({"info", path});
    EXPECT_EQ(info.Ending(), "exit 1");
    EXPECT_EQ(std::count(info.err.begin(), info.err.end(), '\n'), 1) << info.err;
    EXPECT_NE(info.err.find(path), std::string::npos) << info.err;
  }
}

}  // namespace
}  // namespace hindsight::e2e
