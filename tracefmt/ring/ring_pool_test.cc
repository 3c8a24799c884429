// Rings by threads: what is on disk while they grow, and what a reader finds.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/samples/ring_recorder.h"
#include "tracefmt/samples/test_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMost = 4 << 20;
constexpr int32_t kQuiet = 5000;
const RingLimits kByThread = {.bytes = kMost, .by_thread = true, .text = "4M by threads"};

class RingPoolTest : public testing::Test {
 protected:
  RingPoolTest() : directory_(absl::StrCat(testing::TempDir(), "/pool", getpid())) {}
  ~RingPoolTest() override { fs::remove_all(directory_); }

  uint64_t Bytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  }
  std::set<std::string> Names(const std::string& below) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ + "/" + below)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  // Opens the trace and checks that everything in it belongs together.
  std::unique_ptr<TraceReader> Open() {
    auto trace = TraceReader::Open(directory_);
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (!trace.ok()) return nullptr;
    for (const absl::Status& damage : (*trace)->damage()) ADD_FAILURE() << damage;
    if ((*trace)->trimmed() != nullptr) Check(**trace);
    return *std::move(trace);
  }
  static void Check(const TraceReader& trace) {
    const TrimmedEvent& trimmed = *trace.trimmed();
    ASSERT_FALSE(trace.full_keyframes().empty());
    EXPECT_EQ(trace.full_keyframes().front()->number(), trimmed.oldest_keyframe);
    for (const auto& keyframe : trace.full_keyframes()) {
      ASSERT_TRUE(keyframe->CheckFile().ok()) << keyframe->CheckFile();
      if (keyframe->number() < trimmed.whole_keyframe) continue;
      for (const auto& state : keyframe->threads()) {
        ASSERT_TRUE(Has(trace, state.thread, state.segment)) << keyframe->number();
      }
      CheckPages(*keyframe);
    }
    for (const auto& [thread, segment] : trimmed.first_segments) {
      if (trace.segments(thread).empty()) continue;
      EXPECT_EQ(trace.segments(thread).front().number, segment) << thread;
    }
  }
  static bool Has(const TraceReader& trace, int32_t thread, uint64_t number) {
    const auto& segments = trace.segments(thread);
    return std::any_of(segments.begin(), segments.end(),
                       [&](const SegmentInfo& segment) { return segment.number == number; });
  }
  static void CheckPages(const FullKeyframe& keyframe) {
    uint64_t address = Recorder::kPage;
    for (const uint64_t value : {keyframe.number(), uint64_t{7}, keyframe.number() / 3}) {
      std::vector<uint8_t> bytes(kPageBytes);
      const absl::Status read = keyframe.ReadPage(address, absl::MakeSpan(bytes));
      ASSERT_TRUE(read.ok()) << keyframe.number() << ": " << read;
      ASSERT_EQ(std::string(bytes.begin(), bytes.end()), Recorder::PageWith(value));
      address += kPageBytes;
    }
  }

  const std::string directory_;
};

TEST_F(RingPoolTest, AQuietThreadKeepsWhatABusyOneLoses) {
  Recorder recorder(directory_, kByThread);
  recorder.Begin(kQuiet);
  uint64_t largest = 0;
  for (int i = 0; i < 40'000; ++i) {
    recorder.RoundOfFirst();
    if (i % 1000 == 0) recorder.Execute(kQuiet);
    if (i % 500 == 0) {
      ASSERT_TRUE(recorder.writer()->Flush().ok());
      largest = std::max(largest, Bytes());
    }
    if (i % 10'000 == 9'999) Open();
  }
  EXPECT_GT(recorder.written(), 10 * kMost);
  EXPECT_LE(largest, kMost);
  EXPECT_GT(largest, kMost / 2);
  recorder.Finish();
  const auto trace = Open();
  ASSERT_NE(trace->trimmed(), nullptr);
  EXPECT_EQ(trace->trimmed()->oldest_keyframe, 1u);
  EXPECT_GT(trace->trimmed()->whole_keyframe, recorder.keyframes() - 10);
  EXPECT_EQ(trace->segments(kQuiet).front().number, 0u);
  EXPECT_EQ(trace->segments(kQuiet).size(), recorder.keyframes());
  EXPECT_GT(trace->segments(SampleManifest().pid).front().number, recorder.keyframes() / 2);
  // Of what is there what the busy one did meanwhile is missing, up to where it is not.
  EXPECT_TRUE(trace->segments(kQuiet).front().thinned);
  EXPECT_FALSE(trace->segments(kQuiet).back().thinned);
  EXPECT_FALSE(trace->segments(SampleManifest().pid).back().thinned);
  EXPECT_TRUE((*trace->LoadSegment(kQuiet, 0))->info().thinned);
  // Full keyframes have lost their pages.
  EXPECT_EQ(trace->full_keyframes().size(), recorder.keyframes());
  EXPECT_EQ(trace->full_keyframes().front()->page_count(), 0u);
  EXPECT_EQ(trace->full_keyframes().front()->threads().size(), 1u);
  EXPECT_EQ(Names("full").size(), recorder.keyframes());
  EXPECT_TRUE(Names("full").contains("1.head"));
  EXPECT_FALSE(Names("full").contains("1"));
  // What the manifest says is what there is.
  const TraceTotals& totals = *trace->manifest().totals;
  EXPECT_EQ(totals.events, trace->events().size());
  EXPECT_EQ(totals.full_keyframes, trace->full_keyframes().size());
  ASSERT_EQ(totals.threads.size(), 2u);
  for (const ThreadTotals& thread : totals.threads) {
    EXPECT_EQ(thread.segments, trace->segments(thread.thread).size());
  }
}

// Older readers would show memory that is not that of then.
TEST_F(RingPoolTest, EventsSayThatOlderReadersCannotReadThem) {
  Recorder recorder(directory_, kByThread);
  recorder.Begin(kQuiet);
  for (int i = 0; i < 10'000; ++i) recorder.RoundOfFirst();
  recorder.Finish();
  ASSERT_TRUE(Open()->trimmed()->thinned());
  std::FILE* const events = std::fopen((directory_ + "/events").c_str(), "r");
  ASSERT_NE(events, nullptr);
  uint16_t words[3] = {};
  EXPECT_EQ(std::fread(words, sizeof(words), 1, events), 1u);
  std::fclose(events);
  EXPECT_EQ(words[2], 11);  // the kind of the first block
}

// What all have in common counts as a thread of its own: it does not grow for ever.
TEST_F(RingPoolTest, EventsAreBoundedToo) {
  Recorder recorder(directory_, kByThread);
  recorder.Begin(kQuiet);
  for (int i = 0; i < 20'000; ++i) {
    recorder.Execute(SampleManifest().pid);
    if (i % 1000 == 0) recorder.Execute(kQuiet);
    recorder.RoundOfFirst();
    if (i % 500 == 0) {
      ASSERT_TRUE(recorder.writer()->Flush().ok());
      ASSERT_LE(Bytes(), kMost);
    }
  }
  recorder.Finish();
  const auto trace = Open();
  ASSERT_NE(trace->trimmed(), nullptr);
  EXPECT_GT(trace->trimmed()->oldest_keyframe, 1u);
  EXPECT_LE(trace->sizes().events, kMost * 2 / 3);
}

TEST_F(RingPoolTest, ThreadsThatHaveEndedShareAPart) {
  Recorder recorder(directory_, kByThread);
  recorder.Begin(kQuiet);
  for (int32_t i = 0; i < 400; ++i) {
    recorder.Begin(6000 + i);
    for (int round = 0; round < 20; ++round) {
      recorder.Execute(6000 + i);
      recorder.RoundOfFirst();
    }
    recorder.End(6000 + i);
    ASSERT_TRUE(recorder.writer()->Flush().ok());
    ASSERT_LE(Bytes(), kMost);
    if (i % 50 == 49) Open();
  }
  // The number of one that has gone may be another's, as soon as no event of it is left.
  const auto before = Open();
  const auto& firsts = before->trimmed()->first_segments;
  const bool remembered = std::any_of(firsts.begin(), firsts.end(),
                                      [](const auto& first) { return first.first == 6000; });
  if (!remembered) recorder.BeginAgain(6000);
  recorder.Finish();
  const auto trace = Open();
  EXPECT_FALSE(trace->segments(kQuiet).empty());
  EXPECT_TRUE(trace->segments(6001).empty());
  EXPECT_FALSE(trace->segments(6399).empty());
}

// They share a part, too: the oldest goes first, as a whole, when they have most.
TEST_F(RingPoolTest, ProcessesThatHaveEndedGoAsAWhole) {
  Recorder recorder(directory_, kByThread);
  recorder.Begin(kQuiet);
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
    for (int round = 0; round < 20; ++round) recorder.RoundOfFirst();
    ASSERT_TRUE(recorder.writer()->Flush().ok());
    ASSERT_LE(Bytes(), kMost);
  }
  EXPECT_GT(Names("processes").size(), 5u);
  EXPECT_LT(Names("processes").size(), 150u);
  EXPECT_TRUE(Names("processes").contains("7199"));
  EXPECT_FALSE(Names("processes").contains("7000"));
  recorder.Finish();
  EXPECT_EQ(Open()->segments(kQuiet).front().number, 0u);
}

TEST_F(RingPoolTest, OpensWhenTheRecorderWasKilledAtAnyTime) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 8; ++trial) {
    fs::remove_all(directory_);
    const pid_t child = fork();
    if (child == 0) {
      Recorder recorder(directory_, kByThread);
      recorder.Begin(kQuiet);
      for (int32_t i = 0; i < 10'000; ++i) {
        recorder.Begin(8000 + i);
        recorder.Execute(kQuiet);
        for (int round = 0; round < 20; ++round) {
          recorder.Execute(8000 + i);
          recorder.RoundOfFirst();
        }
        EXPECT_TRUE(recorder.writer()->Flush().ok());
        recorder.End(8000 + i);
      }
      _exit(0);
    }
    while (!fs::exists(directory_ + "/manifest")) usleep(1000);
    usleep(200'000 + random() % 400'000);
    // Also while it goes on.
    for (int i = 0; i < (trial % 2 == 0 ? 20 : 0); ++i) {
      const auto trace = TraceReader::Open(directory_);
      ASSERT_TRUE(trace.ok()) << trace.status();
      for (const absl::Status& damage : (*trace)->damage()) ADD_FAILURE() << damage;
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(Open()->manifest().state, TraceState::kInterrupted);
    EXPECT_LE(Bytes(), kMost + (64 << 10));
  }
}

TEST_F(RingPoolTest, OpensWhileItGoesOn) {
  std::atomic<bool> ends = false;
  Recorder recorder(directory_, kByThread);
  recorder.Begin(kQuiet);
  for (int i = 0; i < 10'000; ++i) recorder.RoundOfFirst();
  std::thread writes([&] {
    for (int i = 0; !ends.load(); ++i) {
      recorder.RoundOfFirst();
      if (i % 20 == 0) recorder.Execute(kQuiet);
    }
  });
  for (int i = 0; i < 120; ++i) Open();
  ends = true;
  writes.join();
  recorder.Finish();
  Open();
}

// A process cannot have any number of files open.
TEST_F(RingPoolTest, ASegmentThatWasNotKeptOpenIsNotFoundWhenItHasGone) {
  Recorder recorder(directory_, {.bytes = kMost, .text = "4M"});
  recorder.Begin(kQuiet);
  for (int i = 0; i < 2000; ++i) recorder.RoundOfFirst();
  ASSERT_TRUE(recorder.writer()->Flush().ok());
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few = {46, limit.rlim_max};  // the recorder has some open
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto trace = Open();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_NE(trace, nullptr);
  // Of both threads there are as many segments as full keyframes.
  ASSERT_GE(trace->full_keyframes().size(), 4u);
  const uint64_t number = trace->segments(kQuiet).back().number;
  EXPECT_TRUE(trace->LoadSegment(kQuiet, number).ok());
  for (int i = 0; i < 10'000; ++i) recorder.RoundOfFirst();
  ASSERT_TRUE(recorder.writer()->Flush().ok());
  EXPECT_TRUE(trace->LoadSegment(SampleManifest().pid, 0).ok());
  const absl::Status lost = trace->LoadSegment(kQuiet, number).status();
  EXPECT_TRUE(absl::IsNotFound(lost)) << lost;
  EXPECT_NE(lost.message().find("the ring has gone on"), std::string::npos) << lost;
  recorder.Finish();
}

TEST_F(RingPoolTest, AMissingWholeKeyframeIsDamage) {
  Recorder recorder(directory_, kByThread);
  recorder.Begin(kQuiet);
  for (int i = 0; i < 10'000; ++i) recorder.RoundOfFirst();
  recorder.Finish();
  const uint64_t whole = Open()->trimmed()->whole_keyframe;
  fs::remove(absl::StrCat(directory_, "/full/", whole));
  const auto trace = TraceReader::Open(directory_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_FALSE((*trace)->damage().empty());
  EXPECT_NE((*trace)->damage().front().message().find("has all threads from full keyframe"),
            std::string::npos);
}

}  // namespace
}  // namespace hindsight
