#include "cli/info/trace_summary.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "isa/registers.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

class TraceSummaryTest : public ::testing::Test {
 protected:
  TraceSummaryTest() {
    directory_ = ::testing::TempDir() + "/summary.XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    manifest_.program = "/bin/first";
    manifest_.memory_model = "fence";
    manifest_.register_layout = kRegisterLayout;
    writer_ = *TraceWriter::Create(directory_, manifest_);
  }
  ~TraceSummaryTest() override { std::filesystem::remove_all(directory_); }

  // States `begin` to `end` in one segment.
  void Thread(int32_t thread, uint64_t begin, uint64_t end) {
    const RegisterWords registers = ToWords(RegisterFile());
    EXPECT_TRUE(writer_->BeginSegment(thread, 0, begin, 0, registers).ok());
    EXPECT_TRUE(writer_->Append(thread, {end, SegmentEnd{registers}}).ok());
  }
  void Event(ProcessEvent event) { EXPECT_TRUE(writer_->AppendEvent(event).ok()); }
  void Slice(int32_t thread, uint64_t count, std::vector<uint64_t> arguments) {
    Event({.kind = EventKind::kSlice,
           .sequence = ++sequence_,
           .thread = thread,
           .count = count,
           .arguments = std::move(arguments)});
  }
  TraceSummary Summary(const SummaryOptions& options = {}) {
    manifest_.state = TraceState::kComplete;
    EXPECT_TRUE(writer_->Finish(manifest_).ok());
    return Summarize(**TraceReader::Open(directory_), options);
  }

  std::string directory_;
  Manifest manifest_;
  std::unique_ptr<TraceWriter> writer_;
  uint64_t sequence_ = 0;
};

TEST_F(TraceSummaryTest, InstructionsAreStatesWithoutSignals) {
  Thread(1, 0, 100);
  Thread(2, 5, 20);
  Event({.kind = EventKind::kSignal, .sequence = 1, .thread = 2, .count = 7});
  const TraceSummary summary = Summary();
  ASSERT_EQ(summary.threads.size(), 2);
  EXPECT_EQ(summary.threads[0].instructions, 100);
  EXPECT_EQ(summary.threads[1].instructions, 14);
  EXPECT_EQ(summary.instructions, 114);
  EXPECT_EQ(summary.signals, 1);
}

TEST_F(TraceSummaryTest, RunningTimeIsTheSumOfSlices) {
  Thread(1, 0, 30);
  Thread(2, 0, 30);
  Slice(1, 0, {100, 0, 0});
  Slice(2, 0, {250, 200, 1});   // thread 1 ran for 100
  Slice(1, 10, {400, 300, 0});  // thread 2 for 50
  Slice(2, 20, {450, 410, ~uint64_t{0}});
  const TraceSummary summary = Summary({.end_ns = 1000});
  EXPECT_EQ(summary.threads[0].running_ns, 110);
  EXPECT_EQ(summary.threads[1].running_ns, 50 + 550);
  EXPECT_EQ(summary.threads[0].slices, 2);
  EXPECT_EQ(summary.slices, 4);
  EXPECT_EQ(summary.threads[1].cpus, std::set<uint64_t>{1});
}

TEST_F(TraceSummaryTest, TheLastSliceOfAnInterruptedTraceDoesNotCount) {
  Thread(1, 0, 30);
  Slice(1, 0, {100, 0, 0});
  EXPECT_EQ(Summary().threads[0].running_ns, 0);
}

TEST_F(TraceSummaryTest, MovesBetweenProcessors) {
  Thread(1, 0, 30);
  Slice(1, 0, {100, 0, 3});
  Event({.kind = EventKind::kSchedule, .thread = 1, .arguments = {120, 5, 3}});
  Event({.kind = EventKind::kSchedule, .thread = 1, .arguments = {130, 3, 5}});
  const TraceSummary summary = Summary();
  EXPECT_EQ(summary.threads[0].moves, 2);
  EXPECT_EQ(summary.threads[0].cpus, (std::set<uint64_t>{3, 5}));
}

TEST_F(TraceSummaryTest, LastNameAndLastProgram) {
  Thread(1, 0, 30);
  Event({.kind = EventKind::kThreadStart, .thread = 1, .text = "first"});
  Event({.kind = EventKind::kExec, .sequence = 1, .thread = 1, .count = 9, .text = "/bin/second"});
  Event({.kind = EventKind::kThreadName, .thread = 1, .count = 9, .text = "second"});
  const TraceSummary summary = Summary();
  EXPECT_EQ(summary.threads[0].name, "second");
  EXPECT_EQ(summary.program, "/bin/second");
  EXPECT_EQ(summary.execs, 1);
}

TEST_F(TraceSummaryTest, PositionsOfStartAndEnd) {
  Thread(1, 0, 30);
  Thread(2, 0, 16);
  Event({.kind = EventKind::kSyscall, .sequence = 1, .thread = 1, .count = 10});
  Event({.kind = EventKind::kThreadStart, .sequence = 2, .thread = 2});
  sequence_ = 2;
  Slice(1, 10, {});
  const TraceSummary summary = Summary({.positions = true});
  EXPECT_EQ(summary.threads[0].start, (Position{0, 0}));
  EXPECT_EQ(summary.threads[0].end, (Position{3, 20}));
  EXPECT_EQ(summary.threads[1].start, (Position{2, 0}));
  EXPECT_EQ(summary.threads[1].end, (Position{2, 16}));
}

TEST_F(TraceSummaryTest, OrderableEventsAndGaps) {
  Thread(1, 0, 30);
  Event({.kind = EventKind::kSyscall, .sequence = 1, .thread = 1, .count = 10});
  Event({.kind = EventKind::kGap, .thread = 1, .count = 12, .text = "ran natively"});
  manifest_.ordered_kernel_events = 3;
  manifest_.ordered_instructions = 8;
  const TraceSummary summary = Summary();
  EXPECT_EQ(summary.kernel_events, 3);
  EXPECT_EQ(summary.ordered_instructions, 8);
  ASSERT_EQ(summary.gaps.size(), 1);
  EXPECT_EQ(summary.gaps[0].count, 12);
  EXPECT_EQ(summary.gaps[0].reason, "ran natively");
  EXPECT_EQ(summary.instructions, 29);  // one step from state to state is the gap
}

TEST_F(TraceSummaryTest, AGapThatNothingFollowsIsNoStep) {
  Thread(1, 0, 30);
  Event({.kind = EventKind::kGap, .thread = 1, .count = 30, .text = "was let go"});
  EXPECT_EQ(Summary().instructions, 30);
}

}  // namespace
}  // namespace hindsight
