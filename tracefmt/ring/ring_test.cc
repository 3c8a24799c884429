// Traces that keep their newest part: what is on disk while they grow, and what a reader finds.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/samples/ring_recorder.h"
#include "tracefmt/samples/test_trace.h"
#include "tracefmt/trace_reader.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPage = Recorder::kPage;

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; it != end && !error;
       it.increment(error)) {
    std::error_code gone;
    const uint64_t size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

class RingTest : public testing::Test {
 protected:
  RingTest() : directory_(absl::StrCat(testing::TempDir(), "/ring", getpid(), ".", number_++)) {}
  ~RingTest() override { fs::remove_all(directory_); }

  // Opens the trace and checks that everything in it belongs together.
  void Check(bool trimmed) {
    const auto trace = TraceReader::Open(directory_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    Check(**trace, trimmed);
  }
  static void Check(const TraceReader& trace, bool trimmed) {
    for (const absl::Status& damage : trace.damage()) ADD_FAILURE() << damage;
    ASSERT_EQ(trace.trimmed() != nullptr, trimmed);
    if (!trimmed) return;
    const uint64_t oldest = trace.trimmed()->oldest_keyframe;
    ASSERT_FALSE(trace.full_keyframes().empty());
    const FullKeyframe& first = *trace.full_keyframes().front();
    EXPECT_EQ(first.number(), oldest);
    std::set<int32_t> begun, alive;
    for (const auto& state : first.threads()) {
      ASSERT_FALSE(trace.segments(state.thread).empty()) << state.thread;
      EXPECT_EQ(trace.segments(state.thread).front().number, state.segment);
      EXPECT_EQ(trace.segments(state.thread).front().first_count, state.count);
      alive.insert(state.thread);
    }
    for (const ProcessEvent& event : trace.events()) {
      if (event.kind == EventKind::kThreadStart) begun.insert(event.thread);
    }
    for (const int32_t thread : trace.threads()) {
      // Segments begin before what waits in memory is written.
      if (trace.manifest().state == TraceState::kComplete) {
        EXPECT_TRUE(begun.contains(thread)) << thread;
      }
      if (!alive.contains(thread)) {
        EXPECT_GE(trace.segments(thread).front().first_sequence, first.sequence());
      }
    }
    for (const auto& keyframe : trace.full_keyframes()) CheckPages(*keyframe);
  }
  static void CheckPages(const FullKeyframe& keyframe) {
    ASSERT_TRUE(keyframe.CheckFile().ok()) << keyframe.CheckFile();
    uint64_t address = kPage;
    for (const uint64_t value : {keyframe.number(), uint64_t{7}, keyframe.number() / 3}) {
      std::vector<uint8_t> bytes(kPageBytes);
      const absl::Status read = keyframe.ReadPage(address, absl::MakeSpan(bytes));
      ASSERT_TRUE(read.ok()) << keyframe.number() << ": " << read;
      ASSERT_EQ(std::string(bytes.begin(), bytes.end()), Recorder::PageWith(value));
      address += kPageBytes;
    }
  }
  std::set<std::string> Names(const std::string& below) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ + "/" + below)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  static inline int number_ = 0;
  const std::string directory_;
};

TEST_F(RingTest, DiskStaysBoundedWhileAHundredTimesAsMuchIsWritten) {
  constexpr uint64_t kMost = 4 << 20;
  Recorder recorder(directory_, {.bytes = kMost, .text = "4M"});
  recorder.Begin(5000);
  uint64_t largest = 0, rounds = 0;
  // Some 2 KB a round that cannot be compressed.
  for (; rounds < 340'000; ++rounds) {
    recorder.Round();
    if (rounds % 100 == 0) largest = std::max(largest, BytesIn(directory_));
    if (rounds % 100 == 0) {
      ASSERT_TRUE(recorder.writer()->Flush().ok());
    }
    if (rounds % 20'000 == 19'999) Check(/*trimmed=*/true);
  }
  EXPECT_GT(recorder.written(), 100 * kMost);
  EXPECT_LE(largest, kMost);
  EXPECT_GT(largest, kMost / 2);
  EXPECT_LE(recorder.writer()->bytes_written(), kMost);
  recorder.Finish();
  const auto trace = TraceReader::Open(directory_);
  ASSERT_TRUE(trace.ok());
  Check(**trace, true);
  // What the manifest says is what there is.
  const TraceTotals& totals = *(*trace)->manifest().totals;
  EXPECT_EQ(totals.events, (*trace)->events().size());
  EXPECT_EQ(totals.full_keyframes, (*trace)->full_keyframes().size());
  ASSERT_EQ(totals.threads.size(), 2u);
  for (const ThreadTotals& thread : totals.threads) {
    EXPECT_EQ(thread.segments, (*trace)->segments(thread.thread).size());
    uint64_t records = 0;
    for (const SegmentInfo& info : (*trace)->segments(thread.thread)) {
      records += (*(*trace)->LoadSegment(thread.thread, info.number))->records().size();
    }
    EXPECT_EQ(thread.records, records);
  }
  EXPECT_EQ((*trace)->manifest().ring, "4M");
}

TEST_F(RingTest, KeepsTheNumberOfKeyframesThatWasAskedFor) {
  Recorder recorder(directory_, {.keyframes = 5, .text = "5"});
  for (int i = 0; i < 57; ++i) {
    recorder.Round();
    recorder.Keyframe();
  }
  ASSERT_TRUE(recorder.writer()->Flush().ok());
  Check(/*trimmed=*/true);
  const auto trace = TraceReader::Open(directory_);
  EXPECT_EQ((*trace)->full_keyframes().size(), 5u);
  EXPECT_EQ((*trace)->full_keyframes().back()->number(), recorder.keyframes());
  // Others are there only for their pages.
  EXPECT_LE(Names("full").size(), 8u);
}

TEST_F(RingTest, ThreadsThatHaveEndedGo) {
  Recorder recorder(directory_, {.keyframes = 2, .text = "2"});
  for (int i = 0; i < 20; ++i) {
    recorder.Begin(6000 + i);
    recorder.Round();
    recorder.End(6000 + i);
    recorder.Keyframe();
  }
  ASSERT_TRUE(recorder.writer()->Flush().ok());
  Check(true);
  EXPECT_EQ(Names("threads"), (std::set<std::string>{"4711", "6019"}));
  // The number of one that has gone may be another's.
  recorder.BeginAgain(6003);
  recorder.Round();
  recorder.Keyframe();
  recorder.Finish();
  Check(true);
}

TEST_F(RingTest, KeepsWhatIsNewerThanATime) {
  Recorder recorder(directory_, {.ns = 200'000'000, .text = "200ms"});
  for (int i = 0; i < 100; ++i) {
    recorder.Round();
    // Keyframes are due for what is on disk.
    ASSERT_TRUE(recorder.writer()->Flush().ok());
    usleep(10'000);
  }
  Check(true);
  const auto trace = TraceReader::Open(directory_);
  // Nothing new: it stays.
  usleep(500'000);
  ASSERT_TRUE(recorder.writer()->Flush().ok());
  Check(true);
  EXPECT_GT(recorder.keyframes(), 10u);
}

TEST_F(RingTest, ProcessesThatHaveEndedGoAsAWhole) {
  Recorder recorder(directory_, {.bytes = 4 << 20, .text = "4M"});
  uint64_t largest = 0;
  for (int i = 0; i < 200; ++i) {
    Manifest manifest = SampleManifest();
    manifest.uuid.clear();
    manifest.pid = 7000 + i;
    manifest.parent_pid = 4711;
    auto child = recorder.writer()->CreateChild(manifest);
    ASSERT_TRUE(child.ok()) << child.status();
    {
      Recorder inner(child->get());
      for (int round = 0; round < 60; ++round) inner.Round();
      inner.Finish();
    }
    child->reset();
    recorder.Round();
    largest = std::max(largest, BytesIn(directory_));
  }
  EXPECT_LE(largest, 4u << 20);
  EXPECT_LT(Names("processes").size(), 150u);
  EXPECT_TRUE(Names("processes").contains("7199"));
  EXPECT_FALSE(Names("processes").contains("7000"));
  std::vector<std::string> warnings;
  const auto processes = ListProcesses(directory_, &warnings);
  ASSERT_TRUE(processes.ok());
  EXPECT_EQ(processes->size(), Names("processes").size() + 1);
  EXPECT_EQ(warnings, std::vector<std::string>());
}

TEST_F(RingTest, OpensWhenTheRecorderWasKilledAtAnyTime) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 8; ++trial) {
    fs::remove_all(directory_);
    const pid_t child = fork();
    if (child == 0) {
      Recorder recorder(directory_, {.bytes = 4 << 20, .text = "4M"});
      for (int32_t i = 0;; ++i) {
        recorder.Begin(8000 + i);
        for (int round = 0; round < 20; ++round) recorder.Round();
        EXPECT_TRUE(recorder.writer()->Flush().ok());
        recorder.End(8000 + i);
        if (i == 10000) _exit(0);
      }
    }
    while (!fs::exists(directory_ + "/manifest")) usleep(1000);
    usleep(200'000 + random() % 500'000);
    // Also while it goes on.
    if (trial % 2 == 0) {
      for (int i = 0; i < 20; ++i) {
        const auto trace = TraceReader::Open(directory_);
        ASSERT_TRUE(trace.ok()) << trace.status();
        for (const absl::Status& damage : (*trace)->damage()) ADD_FAILURE() << damage;
        if ((*trace)->trimmed() == nullptr) continue;
        ASSERT_FALSE((*trace)->full_keyframes().empty());
        EXPECT_EQ((*trace)->full_keyframes().front()->number(),
                  (*trace)->trimmed()->oldest_keyframe);
      }
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto trace = TraceReader::Open(directory_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ((*trace)->manifest().state, TraceState::kInterrupted);
    Check(**trace, (*trace)->trimmed() != nullptr);
    EXPECT_LE(BytesIn(directory_), (4u << 20) + (64 << 10));
  }
}

TEST_F(RingTest, AMissingOldestKeyframeIsDamage) {
  Recorder recorder(directory_, {.keyframes = 3, .text = "3"});
  for (int i = 0; i < 10; ++i) {
    recorder.Round();
    recorder.Keyframe();
  }
  recorder.Finish();
  Check(true);
  fs::remove(directory_ + "/full/9");
  const auto trace = TraceReader::Open(directory_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ((*trace)->damage().size(), 1u);
  EXPECT_NE((*trace)->damage().front().message().find("begins with full keyframe 9"),
            std::string::npos);
}

}  // namespace
}  // namespace hindsight
