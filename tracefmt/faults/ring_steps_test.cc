// Rings, stopped at each step of whoever writes them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/faults/stepped_process_fixture.h"
#include "tracefmt/samples/ring_recorder.h"
#include "tracefmt/samples/sample_trace.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMost = 256 << 10;
constexpr int32_t kQuiet = 5000;
const RingLimits kByThread = {.bytes = kMost, .by_thread = true, .text = "256K by threads"};
const RingLimits kByProcess = {.bytes = kMost, .text = "256K"};

class RingNumbersTest : public testing::Test {
 protected:
  RingNumbersTest()
      : directory_(absl::StrCat(testing::TempDir(), "/ring", getpid())),
        copy_(directory_ + ".killed") {}
  ~RingNumbersTest() override {
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
  // Whatever the trace lists belongs together, and all is there from the whole keyframe on.
  static void Check(const TraceReader& trace) {
    for (const absl::Status& damage : trace.damage()) FAIL() << damage;
    for (const auto& keyframe : trace.full_keyframes()) {
      ASSERT_TRUE(keyframe->CheckFile().ok()) << keyframe->CheckFile();
      if (keyframe->page_count() == 0) continue;
      ASSERT_NO_FATAL_FAILURE(CheckPages(*keyframe));
    }
    ASSERT_NO_FATAL_FAILURE(CheckSegments(trace));
    if (trace.trimmed() != nullptr) CheckBeginning(trace, *trace.trimmed());
  }
  static void CheckBeginning(const TraceReader& trace, const TrimmedEvent& trimmed) {
    const FullKeyframe& oldest = *trace.full_keyframes().front();
    ASSERT_EQ(oldest.number(), trimmed.oldest_keyframe);
    for (size_t i = 0; i < trace.full_keyframes().size(); ++i) {
      ASSERT_EQ(trace.full_keyframes()[i]->number(), oldest.number() + i);
    }
    for (const auto& keyframe : trace.full_keyframes()) {
      if (keyframe->number() != trimmed.whole_keyframe) continue;
      ASSERT_NE(keyframe->page_count(), 0u);
      for (const auto& state : keyframe->threads()) {
        ASSERT_FALSE(trace.segments(state.thread).empty()) << state.thread;
        ASSERT_LE(trace.segments(state.thread).front().number, state.segment) << state.thread;
      }
    }
    for (const int32_t thread : trace.threads()) {
      ASSERT_GE(trace.segments(thread).front().first_sequence, oldest.sequence()) << thread;
    }
    const auto first = std::find_if(
        trace.events().begin(), trace.events().end(),
        [](const ProcessEvent& event) { return event.kind == EventKind::kFullKeyframe; });
    ASSERT_NE(first, trace.events().end());
    ASSERT_EQ(static_cast<uint64_t>(first->number), oldest.number());
  }

  // Has a reader open the trace, calls `at_step` before each file that it opens for that, and
  // checks the trace then. How many files that were.
  int OpenInSteps(const std::function<void(int step)>& at_step, absl::StatusCode expected) {
    int steps = 0;
    const auto open = [&] {
      const auto directory = TraceDirectory::Open(directory_);
      ASSERT_TRUE(directory.ok()) << directory.status();
      const auto trace = TraceReader::Open(*directory, std::chrono::seconds(0));
      ASSERT_EQ(trace.status().code(), expected) << trace.status();
      if (trace.ok()) Check(**trace);
    };
    EXPECT_TRUE(RunInSteps(open, OpensFile, [&] { at_step(steps++); }));
    return steps;
  }

  const std::string directory_, copy_;
};

class RingStepsTest : public RingNumbersTest, public testing::WithParamInterface<RingLimits> {};

TEST_P(RingStepsTest, WhereverTheRecorderIsKilledAllThatIsThereBelongsTogether) {
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
    Recorder recorder(directory_, GetParam());
    recorder.Begin(kQuiet);
    Record(&recorder, 500);
  };
  EXPECT_TRUE(RunInSteps(record, ChangesNames, kill_here));
  EXPECT_GT(steps, 200);
  EXPECT_GT(most_dropped, 10u);
}

// Parts go, before the reader opens one file or another: what it has listed does, without beginning
// anew. Where threads begin later than the trace, few are left of those that have all threads.
TEST_P(RingStepsTest, PartsThatGoWhileTheyAreListedAreLeftOut) {
  Recorder recorder(directory_, GetParam());
  recorder.Begin(kQuiet);
  Record(&recorder, 400);
  const int rounds = GetParam().by_thread ? 20 : 60;
  // One that has more parts opens more files.
  const int stride = GetParam().by_thread ? 3 : 1;
  uint64_t oldest = 0;
  for (int step = 0, steps = 1; step < steps && !HasFailure(); step += stride) {
    steps = OpenInSteps(
        [&](int now) {
          if (now == step) Record(&recorder, rounds);
        },
        absl::StatusCode::kOk);
    ASSERT_LT(steps, 2000);
    oldest = (*TraceReader::Open(directory_))->trimmed()->whole_keyframe;
  }
  EXPECT_GT(oldest, 100u / static_cast<uint64_t>(stride));
  recorder.Finish();
}

// Another thread has the number of one that was listed, and went.
TEST_F(RingNumbersTest, ANumberThatIsAnothersByNowDoesNotBringBackWhatHasGone) {
  Recorder recorder(directory_, kByProcess);
  recorder.Begin(kQuiet);
  Record(&recorder, 400);
  for (int step = 0, steps = 1; step < steps && !HasFailure(); step += 3) {
    const int32_t thread = 6000 + step;
    const std::string segments = absl::StrCat(directory_, "/threads/", thread);
    recorder.Begin(thread);
    recorder.Execute(thread);
    recorder.End(thread);
    // Until it is in the oldest part.
    Record(&recorder, 60);
    EXPECT_TRUE(fs::exists(segments));
    steps = OpenInSteps(
        [&](int now) {
          if (now != step) return;
          for (int i = 0; i < 20 && fs::exists(segments); ++i) Record(&recorder, 10);
          Record(&recorder, 20);
          recorder.BeginAgain(thread);
          recorder.Execute(thread);
          recorder.End(thread);
          EXPECT_TRUE(recorder.writer()->Flush().ok());
        },
        absl::StatusCode::kOk);
  }
  recorder.Finish();
}

TEST_P(RingStepsTest, WhereAllGoesFasterThanItIsListedTheReaderSaysSo) {
  Recorder recorder(directory_, GetParam());
  recorder.Begin(kQuiet);
  Record(&recorder, 400);
  OpenInSteps([&](int) { Record(&recorder, 100); }, absl::StatusCode::kUnavailable);
  recorder.Finish();
}

TEST_P(RingStepsTest, WhatWasListedCanBeReadAfterItHasGone) {
  Recorder recorder(directory_, GetParam());
  recorder.Begin(kQuiet);
  Record(&recorder, 400);
  const auto trace = TraceReader::Open(directory_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  Record(&recorder, 1000);
  const uint64_t newest = (*trace)->full_keyframes().back()->number();
  EXPECT_FALSE(fs::exists(absl::StrCat(directory_, "/full/", newest)));
  Check(**trace);
  recorder.Finish();
}

// The trace of a process that has ended goes as a whole, before a reader opens one file or another:
// either all of it was opened by then, or it is as if it had not been listed.
TEST_F(RingNumbersTest, AProcessThatGoesWhileItIsListedIsThereOrNot) {
  Recorder recorder(directory_, kByProcess);
  Manifest manifest = SampleManifest();
  manifest.parent_pid = manifest.pid;
  int there = 0, dropped = 0;
  for (int step = 0, steps = 1; step < steps && !HasFailure(); ++step) {
    manifest.uuid.clear();
    manifest.pid = 7000 + step;
    auto child = *recorder.writer()->CreateChild(manifest);
    const std::string name = absl::StrCat(directory_, "/processes/", manifest.pid);
    {
      Recorder inner(child.get());
      for (int round = 0; round < 3; ++round) inner.Keyframe();
      inner.Finish();
    }
    child.reset();
    const auto processes = ListProcesses(directory_, nullptr);
    ASSERT_TRUE(processes.ok()) << processes.status();
    const ProcessInfo& listed = processes->back();
    ASSERT_EQ(listed.directory, name);
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const auto open = [&] {
      const auto trace = TraceReader::Open(listed.files);
      const char is_there = trace.ok() ? 1 : 0;
      ASSERT_TRUE(trace.ok() || HasBeenDropped(listed, trace.status())) << trace.status();
      ASSERT_EQ(write(pipe_ends[1], &is_there, 1), 1);
      if (trace.ok()) Check(**trace);
    };
    int now = 0;
    const auto drop = [&] {
      if (now++ != step) return;
      steps = step + 2;  // there was this one: look at the next
      for (int i = 0; i < 200 && fs::exists(name); ++i) {
        recorder.Execute(SampleManifest().pid);
        recorder.Keyframe();
        EXPECT_TRUE(recorder.writer()->Flush().ok());
      }
      EXPECT_FALSE(fs::exists(name));
    };
    EXPECT_TRUE(RunInSteps(open, OpensFile, drop));
    char is_there = 0;
    ASSERT_EQ(read(pipe_ends[0], &is_there, 1), 1);
    ++(is_there != 0 ? there : dropped);
    for (const int end : pipe_ends) close(end);
  }
  EXPECT_GT(dropped, 3);
  EXPECT_GT(there, 0);
  recorder.Finish();
}

// As a recorder leaves it that was killed while it removed one, whose child lives on.
TEST_F(RingNumbersTest, AProcessThatIsBeingRemovedIsNotListed) {
  Recorder recorder(directory_, kByProcess);
  Manifest manifest = SampleManifest();
  manifest.parent_pid = manifest.pid;
  manifest.uuid.clear();
  manifest.pid = 7000;
  const auto child = *recorder.writer()->CreateChild(manifest);
  manifest.parent_pid = 7000;
  manifest.pid = 7001;
  const auto grandchild = *child->CreateChild(manifest);
  const std::string processes = directory_ + "/processes/";
  const auto lives = TraceDirectory::Open(processes + "7001");
  ASSERT_TRUE(lives.ok()) << lives.status();
  EXPECT_TRUE(CheckAncestry(*lives).ok());
  ASSERT_EQ(ListProcesses(directory_, nullptr)->size(), 3u);
  fs::rename(processes + "7000", processes + "7000.tmp");
  std::vector<std::string> warnings;
  const auto listed = ListProcesses(directory_, &warnings);
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ(listed->back().manifest.pid, 7001);
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(CheckAncestry(*lives).ok()) << CheckAncestry(*lives);
}

INSTANTIATE_TEST_SUITE_P(Pools, RingStepsTest, testing::Values(kByProcess, kByThread),
                         [](const auto& pool) {
                           return pool.param.by_thread ? "ByThread" : "ByProcess";
                         });

}  // namespace
}  // namespace hindsight
