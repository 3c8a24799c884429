// Rings, stopped at each step of whoever writes them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/faults/stepped_process_fixture.h"
#include "tracefmt/samples/ring_recorder.h"
#include "tracefmt/samples/sample_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMost = 256 << 10;
constexpr int32_t kQuiet = 5000;
const RingLimits kByThread = {.bytes = kMost, .by_thread = true, .text = "256K by threads"};

class RingStepsTest : public testing::Test {
 protected:
  RingStepsTest()
      : directory_(absl::StrCat(testing::TempDir(), "/ring", getpid())),
        copy_(directory_ + ".killed") {}
  ~RingStepsTest() override {
    fs::remove_all(directory_);
    fs::remove_all(copy_);
  }

  static void Record(Recorder* recorder, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      recorder->RoundOfFirst();
      if (i % 20 == 0) recorder->Execute(kQuiet);
      EXPECT_TRUE(recorder->writer()->Flush().ok());
    }
  }

  // What a page table names is there, with the right bytes.
  static void CheckPages(const FullKeyframe& keyframe) {
    uint64_t address = Recorder::kPage;
    for (const uint64_t value : {keyframe.number(), uint64_t{7}, keyframe.number() / 3}) {
      std::vector<uint8_t> bytes(kPageBytes);
      const absl::Status read = keyframe.ReadPage(address, absl::MakeSpan(bytes));
      ASSERT_TRUE(read.ok()) << "full keyframe " << keyframe.number() << ": " << read;
      ASSERT_EQ(std::string(bytes.begin(), bytes.end()), Recorder::PageWith(value));
      address += kPageBytes;
    }
  }
  static void CheckSegments(const TraceReader& trace) {
    for (const int32_t thread : trace.threads()) {
      for (const SegmentInfo& info : trace.segments(thread)) {
        const auto segment = trace.LoadSegment(thread, info.number);
        ASSERT_TRUE(segment.ok()) << segment.status();
        ASSERT_TRUE((*segment)->damage().ok()) << (*segment)->damage();
      }
    }
  }
  // Whatever the trace lists belongs together.
  static void Check(const TraceReader& trace) {
    for (const absl::Status& damage : trace.damage()) FAIL() << damage;
    for (const auto& keyframe : trace.full_keyframes()) {
      ASSERT_TRUE(keyframe->CheckFile().ok()) << keyframe->CheckFile();
      if (keyframe->page_count() == 0) continue;
      ASSERT_NO_FATAL_FAILURE(CheckPages(*keyframe));
    }
    CheckSegments(trace);
  }

  const std::string directory_, copy_;
};

TEST_F(RingStepsTest, WhereverTheRecorderIsKilledAllThatIsThereBelongsTogether) {
  int steps = 0;
  uint64_t most_dropped = 0;
  const auto kill_here = [&] {
    ++steps;
    // The first manifest comes when the directories are there.
    if (HasFatalFailure() || !fs::exists(directory_ + "/manifest")) return;
    fs::remove_all(copy_);
    fs::copy(directory_, copy_, fs::copy_options::recursive);
    const auto trace = TraceReader::Open(copy_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ((*trace)->manifest().state, TraceState::kInterrupted);
    ASSERT_NO_FATAL_FAILURE(Check(**trace)) << "step " << steps;
    if ((*trace)->trimmed() != nullptr) most_dropped = (*trace)->trimmed()->whole_keyframe;
  };
  const auto record = [&] {
    Recorder recorder(directory_, kByThread);
    recorder.Begin(kQuiet);
    Record(&recorder, 500);
  };
  EXPECT_TRUE(RunInSteps(record, ChangesNames, kill_here));
  EXPECT_GT(steps, 200);
  EXPECT_GT(most_dropped, 10u);
}

}  // namespace
}  // namespace hindsight
