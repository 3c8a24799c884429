#include "keyframes/state/process_state.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"
#include "tracefmt/samples/ring_recorder.h"
#include "tracefmt/trace_reader.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording({.signal_every = 40, .full_keyframes = true});
  return *kToy;
}

ProcessState StateOf(const ToyRecording& toy) {
  auto state = ProcessState::Create(toy.trace());
  EXPECT_TRUE(state.ok()) << state.status();
  return *std::move(state);
}

TEST(ProcessStateTest, PercentagesSpanTheRecording) {
  const ProcessState state = StateOf(Toy());
  EXPECT_EQ(state.MomentAtPercent(0), 0);
  EXPECT_EQ(state.MomentAtPercent(100), state.end_moment());
  EXPECT_EQ(state.MomentAtPercent(1000), state.end_moment());
  EXPECT_NEAR(state.PercentAt(state.MomentAtPercent(37)), 37, 0.1);
}

TEST(ProcessStateTest, SnapshotsAreTheFullKeyframes) {
  const ProcessState state = StateOf(Toy());
  ASSERT_GE(state.snapshots().size(), 2);
  EXPECT_EQ(state.snapshots()[0].number, 1);
  EXPECT_EQ(state.snapshots()[0].moment, 0);
  EXPECT_EQ(state.KeyframeAt(state.snapshots()[1].moment)->number(), 2);
  EXPECT_EQ(state.KeyframeAt(state.snapshots()[1].moment - 1)->number(), 1);
}

// A ring by threads keeps full keyframes of which only threads are left to say something that are
// missing there: the first one, before the quiet thread began.
TEST(ProcessStateTest, AKeyframeOfMissingThreadsIsWhereTheTraceBegins) {
  constexpr int32_t kQuiet = 5000;
  constexpr uint64_t kMost = 1 << 20;
  const std::string directory = testing::TempDir() + "/thinned";
  Recorder recorder(directory, {.bytes = kMost, .by_thread = true, .text = "1M by threads"});
  recorder.Begin(kQuiet);
  for (int i = 0; i < 2000; ++i) {
    recorder.RoundOfFirst();
    if (i % 100 == 0) recorder.Execute(kQuiet);
    ASSERT_TRUE(recorder.writer()->Flush().ok());
  }
  recorder.Finish();
  const auto trace = TraceReader::Open(directory);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ((*trace)->trimmed()->oldest_keyframe, 1);
  ASSERT_GT((*trace)->trimmed()->whole_keyframe, 2);
  const auto state = ProcessState::Create(trace->get());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->snapshots().front().number, 1);
  EXPECT_EQ(state->snapshots().front().moment, 0);
  EXPECT_EQ(state->snapshots().size(), (*trace)->full_keyframes().size());
  std::filesystem::remove_all(directory);
}

// A trace of one empty segment, with the events given.
class EventTrace {
 public:
  explicit EventTrace(const std::vector<ProcessEvent>& events) {
    const char* parent = std::getenv("TEST_TMPDIR");
    directory_ = std::string(parent == nullptr ? "/tmp" : parent) + "/events_XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    Manifest manifest;
    auto writer = *TraceWriter::Create(directory_ + "/t", manifest);
    EXPECT_TRUE(writer->BeginSegment(1, 0, 0, 0, RegisterWords(81)).ok());
    EXPECT_TRUE(writer->Append(1, {100, SegmentEnd{RegisterWords(81)}}).ok());
    for (const ProcessEvent& event : events) EXPECT_TRUE(writer->AppendEvent(event).ok());
    manifest.state = TraceState::kComplete;
    EXPECT_TRUE(writer->Finish(manifest).ok());
    reader_ = *TraceReader::Open(directory_ + "/t");
  }
  ~EventTrace() { std::filesystem::remove_all(directory_); }

  ProcessState State() const { return *ProcessState::Create(reader_.get()); }

 private:
  std::string directory_;
  std::unique_ptr<TraceReader> reader_;
};

ProcessEvent MapChange(uint64_t count, std::vector<MapRegion> maps) {
  ProcessEvent event;
  event.kind = EventKind::kMapChange;
  event.count = count;
  event.maps = std::move(maps);
  return event;
}

TEST(ProcessStateTest, TheMapIsTheOneLastChanged) {
  const EventTrace trace({MapChange(0, {{.start = 0x1000, .end = 0x2000}}),
                          MapChange(50, {{.start = 0x5000, .end = 0x6000}})});
  const ProcessState state = trace.State();
  EXPECT_NE(state.maps().FindWithStackGrowth(49, 0x1000), nullptr);
  EXPECT_EQ(state.maps().FindWithStackGrowth(49, 0x2000), nullptr);
  EXPECT_EQ(state.maps().FindWithStackGrowth(50, 0x1000), nullptr);
  EXPECT_NE(state.maps().FindWithStackGrowth(50, 0x5fff), nullptr);
}

TEST(ProcessStateTest, PartsOfTheMapChangeTheRestStays) {
  const EventTrace trace(
      {MapChange(0, {{.start = 0x1000, .end = 0x2000}, {.start = 0x5000, .end = 0x6000}}),
       {.kind = EventKind::kMapPart,
        .count = 20,
        .arguments = {0x1000, 0x3000},
        .maps = {{.start = 0x2000, .end = 0x3000}}}});
  const ProcessState state = trace.State();
  EXPECT_NE(state.maps().FindWithStackGrowth(19, 0x1000), nullptr);
  EXPECT_EQ(state.maps().FindWithStackGrowth(19, 0x2000), nullptr);
  EXPECT_EQ(state.maps().FindWithStackGrowth(20, 0x1000), nullptr);
  EXPECT_NE(state.maps().FindWithStackGrowth(20, 0x2000), nullptr);
  EXPECT_NE(state.maps().FindWithStackGrowth(20, 0x5000), nullptr);
  EXPECT_EQ(state.maps().CopyAt(20).size(), 2);
  EXPECT_TRUE(state.maps().IsSameAt(20, 99));
  EXPECT_FALSE(state.maps().IsSameAt(19, 20));
}

// A thread may notice late what the kernel did to the map in a state that it had reached before.
TEST(ProcessStateTest, TheMapChangesInTheOrderWritten) {
  const EventTrace trace(
      {MapChange(50, {{.start = 0x1000, .end = 0x2000}}),
       {.kind = EventKind::kMapPart, .count = 20, .arguments = {0x1000, 0x2000}}});
  const ProcessState state = trace.State();
  EXPECT_EQ(state.maps().FindWithStackGrowth(49, 0x1000), nullptr);
  EXPECT_EQ(state.maps().FindWithStackGrowth(50, 0x1000), nullptr);
}

// A thread's newest records may be lost where those of others that came after are not.
TEST(ProcessStateTest, AChangeInAStateThatIsMissingIsInTheMapFromTheNextEventOn) {
  const ProcessEvent change = MapChange(10, {{.start = 0x1000, .end = 0x2000}});
  const ProcessEvent missing = {
      .kind = EventKind::kMapPart, .count = 1'000'000, .arguments = {0x1000, 0x2000}};
  const EventTrace trace({change, missing, {.kind = EventKind::kNote, .count = 50}});
  EXPECT_NE(trace.State().maps().FindWithStackGrowth(49, 0x1000), nullptr);
  EXPECT_EQ(trace.State().maps().FindWithStackGrowth(50, 0x1000), nullptr);
  // Nothing recorded came after it.
  EXPECT_NE(EventTrace({change, missing}).State().maps().FindWithStackGrowth(99, 0x1000), nullptr);
}

TEST(ProcessStateTest, TheStackReachesBelowWhereItStood) {
  const EventTrace trace(
      {MapChange(0, {{.start = 0x7f0000000000, .end = 0x7f0000010000, .name = "[stack]"}})});
  EXPECT_NE(trace.State().maps().FindWithStackGrowth(1, 0x7effffff0000), nullptr);
  EXPECT_EQ(trace.State().maps().FindWithStackGrowth(1, 0x7eff00000000), nullptr);
}

TEST(ProcessStateTest, AnExitIsKnown) {
  ProcessEvent exit;
  exit.kind = EventKind::kProcessExit;
  exit.count = 100;
  exit.number = 11;
  const EventTrace trace({exit});
  const ProcessState state = trace.State();
  ASSERT_TRUE(state.exit_status().has_value());
  EXPECT_FALSE(state.exit_status()->exited());
  EXPECT_EQ(state.exit_status()->signal(), 11);
  EXPECT_FALSE(EventTrace({}).State().exit_status().has_value());
}

}  // namespace
}  // namespace hindsight
