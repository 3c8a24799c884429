// Traces that keep their newest part, and traces that are kept only if the program ended so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// What threads have told and is not written yet comes on top of what is known to be recorded: the
// engine that translates has up to 4 MiB of each.
uint64_t Most() { return (Engine() == TestedEngine::kTranslate ? 48u : 16u) << 20; }
std::string Ring() { return absl::StrCat("--ring=", Most() >> 20, "M"); }

// At most what the files there have at one moment, although some come and go while they are looked
// at: those that are still there afterwards were there all the time, and none gets smaller.
uint64_t BytesIn(const std::string& directory) {
  std::vector<std::pair<fs::path, uint64_t>> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; it != end && !error;
       it.increment(error)) {
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    const uint64_t size = it->file_size(gone);
    if (!gone) files.emplace_back(it->path(), size);
  }
  uint64_t bytes = 0;
  for (const auto& [path, size] : files) {
    if (fs::exists(path, error)) bytes += size;
  }
  return bytes;
}

int FilesIn(const std::string& directory) {
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory)) ++files;
  return files;
}

std::string Files() { return Runfile("tests/ring/files"); }
std::string Churn() { return Runfile("tests/ring/churn"); }

class RingTest : public ::testing::Test {
 protected:
  Child Start(const std::vector<std::string>& options, const std::vector<std::string>& program) {
    std::vector<std::string> argv = RecordCommand();
    argv.insert(argv.end(), {"--quiet", "-o", trace_});
    argv.insert(argv.end(), options.begin(), options.end());
    argv.push_back("--");
    argv.insert(argv.end(), program.begin(), program.end());
    return Child::Start(argv, {.timeout = absl::Seconds(500)});
  }

  // `largest`: what the trace had on disk, of all the times that it was looked at until the program
  // was done.
  ChildResult FinishWatched(Child* child, uint64_t* largest) {
    EXPECT_TRUE(child->WaitForFile(trace_ + "/manifest")) << child->err();
    std::atomic<bool> over = false;
    std::thread sampler([&] {
      while (!over) {
        *largest = std::max(*largest, BytesIn(trace_));
        usleep(5000);
      }
    });
    size_t position = 0;
    EXPECT_TRUE(child->WaitForOut("done", &position));
    ChildResult result = child->Finish();
    over = true;
    sampler.join();
    return result;
  }

  TempDir directory_;
  const std::string trace_ = directory_.File("trace");
};

TEST_F(RingTest, DiskStaysBoundedAndWhatIsKeptIsExact) {
  const int rounds = 1200;  // 600 MB
  Child child = Start({Ring()}, {Churn(), "2", absl::StrCat(rounds), "3"});
  uint64_t largest = 0;
  const ChildResult result = FinishWatched(&child, &largest);
  EXPECT_EQ(result.Ending(), "exit 3") << result.err;
  EXPECT_LE(largest, Most());
  EXPECT_GT(largest, Most() / 2);
  ExpectExact(trace_);
  EXPECT_THAT(RunHindsight({"info", trace_}).out, HasSubstr("M: begins at full keyframe "));
}

TEST_F(RingTest, HistoryEndsAtTheOldestKeyframe) {
  Child child = Start({Ring()}, {Churn(), "1", absl::StrCat(200), "0"});
  EXPECT_EQ(child.Finish().Ending(), "exit 0");
  const GdbResult gdb = RunGdb(trace_, R"(
python
start = all_registers()
say("end", run("continue"))
say("start", run("reverse-continue"))
say("same", all_registers() == start)
say("still", run("reverse-stepi"))
say("step", run("stepi"))
say("back", run("reverse-stepi"))
say("same again", all_registers() == start)
say("threads", len(gdb.selected_inferior().threads()))
run("continue")
say("goto", gdb.execute("monitor goto start", to_string=True).strip())
end
)");
  EXPECT_EQ(gdb.Answer("same"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("same again"), "True") << gdb.text;
  EXPECT_THAT(gdb.Answer("goto"), ::testing::EndsWith(" 0%")) << gdb.text;
  EXPECT_GE(std::atoi(gdb.Answer("threads").c_str()), 2) << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("No more reverse-execution history"));
}

TEST_F(RingTest, OpensWhereverTheRecorderWasKilled) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 8; ++trial) {
    fs::remove_all(trace_);
    Child child = Start({Ring()}, {Churn(), "2", "100000", "0"});
    ASSERT_TRUE(child.WaitForFile(trace_ + "/manifest")) << child.err();
    usleep(500'000 + random() % 1'500'000);
    if (trial % 4 == 0) {
      const ChildResult live = RunHindsight({"info", trace_});
      EXPECT_EQ(live.Ending(), "exit 0") << live.err;
      EXPECT_THAT(live.out, Not(HasSubstr("damage"))) << live.out;
    }
    child.Signal(SIGKILL);
    child.Finish();
    EXPECT_LE(BytesIn(trace_), Most());
    // What was written last may be cut off; what is there is exact.
    const ChildResult verify = RunHindsight({"verify", trace_});
    EXPECT_THAT(verify.out, ::testing::StartsWith("exact: ")) << verify.out << verify.err;
  }
}

TEST_F(RingTest, ChildrenCountAsWell) {
  Child child = Start({Ring()}, {Churn(), "1", absl::StrCat(400), "0", "child"});
  EXPECT_EQ(child.Finish().Ending(), "exit 0");
  EXPECT_LE(BytesIn(trace_), Most());
  ExpectExact(trace_);
}

// Of the files that a program maps, one after the other, those stay that something kept refers to.
TEST_F(RingTest, FilesThatAreNotMappedAnyMoreGo) {
  fs::create_directory(directory_.File("files"));
  Child child = Start({Ring()}, {Files(), "1000", directory_.File("files")});  // 125 MiB
  uint64_t largest = 0;
  const ChildResult result = FinishWatched(&child, &largest);
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_LE(largest, Most());
  EXPECT_GT(largest, Most() / 2);
  EXPECT_LT(FilesIn(trace_ + "/modules"), 500);
  ExpectExact(trace_);
}

TEST_F(RingTest, FilesAreThereWhereverTheRecorderWasKilled) {
  std::mt19937 random(6);
  fs::create_directory(directory_.File("files"));
  for (int trial = 0; trial < 4; ++trial) {
    fs::remove_all(trace_);
    Child child = Start({Ring()}, {Files(), "100000", directory_.File("files")});
    ASSERT_TRUE(child.WaitForFile(trace_ + "/manifest")) << child.err();
    usleep(500'000 + random() % 1'500'000);
    child.Signal(SIGKILL);
    child.Finish();
    EXPECT_LE(BytesIn(trace_), Most());
    const ChildResult verify = RunHindsight({"verify", trace_});
    EXPECT_THAT(verify.out, ::testing::StartsWith("exact: ")) << verify.out << verify.err;
  }
}

TEST_F(RingTest, SnapshotsLetFilesGoAsWell) {
  fs::create_directory(directory_.File("files"));
  const ChildResult result =
      Child::Start({Hindsight(), "snap", "--quiet", "-o", trace_, "--every=5ms", "--ring=4", "--",
                    Files(), "4000", directory_.File("files")},
                   {.timeout = absl::Seconds(300)})
          .Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_LT(FilesIn(trace_ + "/modules"), 20);
  EXPECT_THAT(RunHindsight({"verify", trace_}).out, ::testing::StartsWith("whole: 4 snapshots, "));
}

TEST_F(RingTest, KeepsTheNewestByTimeOrNumber) {
  Child by_time = Start({"--ring=500ms"}, {Churn(), "1", absl::StrCat(400), "0"});
  EXPECT_EQ(by_time.Finish().Ending(), "exit 0");
  ExpectExact(trace_);
  fs::remove_all(trace_);
  // Where threads run at once, full keyframes come only where a segment ends.
  Child by_number =
      Start({"--ring=3", "--light-keyframe-interval=1000000", "--full-keyframe-interval=2000000"},
            {Churn(), "1", absl::StrCat(400), "0"});
  EXPECT_EQ(by_number.Finish().Ending(), "exit 0");
  ExpectExact(trace_);
  EXPECT_THAT(RunHindsight({"info", trace_}).out, ::testing::ContainsRegex(", [1-3] full\n"));
}

TEST_F(RingTest, ATraceIsKeptOnlyForTheEndThatWasAskedFor) {
  const auto run = [&](const std::string& save, const std::string& end) {
    fs::remove_all(trace_);
    Child child = Start({"--save-on=" + save}, {Churn(), "1", "1", end});
    return child.Finish().Ending();
  };
  EXPECT_EQ(run("crash", "0"), "exit 0");
  EXPECT_FALSE(fs::exists(trace_));
  EXPECT_EQ(run("crash", "-11"), "signal 11");
  EXPECT_TRUE(fs::exists(trace_ + "/manifest"));
  ExpectExact(trace_);
  EXPECT_EQ(run("crash", "-15"), "signal 15");
  EXPECT_FALSE(fs::exists(trace_));
  EXPECT_EQ(run("signal=TERM", "-15"), "signal 15");
  EXPECT_TRUE(fs::exists(trace_));
  EXPECT_EQ(run("exit-status=3", "4"), "exit 4");
  EXPECT_FALSE(fs::exists(trace_));
  EXPECT_EQ(run("exit-status", "4"), "exit 4");
  EXPECT_TRUE(fs::exists(trace_));
}

TEST_F(RingTest, SnapshotsGoOneByOne) {
  const ChildResult result =
      Child::Start({Hindsight(), "snap", "--quiet", "-o", trace_, "--every=20ms", "--ring=7", "--",
                    Churn(), "2", "5000", "0"},
                   {.timeout = absl::Seconds(300)})
          .Finish();
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  const std::string info = RunHindsight({"info", trace_}).out;
  EXPECT_THAT(info, HasSubstr("snapshots:    7\n"));
  EXPECT_THAT(info, HasSubstr("7: begins at full keyframe "));
  const GdbResult gdb = RunGdb(trace_, R"(
python
say("list", gdb.execute("monitor snapshots", to_string=True).count("\n"))
say("end", run("continue"))
say("threads", len(gdb.selected_inferior().threads()))
say("sum", value("(long)rounds"))
end
)");
  EXPECT_EQ(gdb.Answer("sum"), "5000") << gdb.text;
}

TEST_F(RingTest, ImpossibleRingsAreRefused) {
  for (const char* ring : {"10m", "1M", "0", "x"}) {
    const ChildResult result =
        RunHindsight({"record", absl::StrCat("--ring=", ring), "-o", trace_, "--", "true"});
    EXPECT_EQ(result.Ending(), "exit 2") << ring;
    EXPECT_THAT(result.err, HasSubstr("a ring keeps a size"));
  }
}

}  // namespace
}  // namespace hindsight::e2e
