#include "recorder/log/thread_log.h"

#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"

namespace hindsight {
namespace {

constexpr int32_t kThread = 7;

const hindsight::OrderRun& RunOf(const Record& record) {
  return std::get<hindsight::OrderRun>(record.body);
}

TEST(ThreadLogTest, NumbersOfAllThreadsComeFromOneSequence) {
  FakeTraceWriter writer;
  Sequence sequence;
  ThreadLog first(&writer, kThread, &sequence), second(&writer, kThread + 1, &sequence);
  const std::vector<uint64_t> counts = {3, 4, 8};
  EXPECT_EQ(first.NextSequence(), 1u);
  second.OrderRun(10, counts);
  EXPECT_EQ(first.NextSequence(), 5u);
  EXPECT_EQ(RunOf(writer.records.at(0)).first_sequence, 2u);
  EXPECT_EQ(first.kernel_events(), 2u);
  EXPECT_EQ(first.ordered_instructions(), 0u);
  EXPECT_EQ(second.ordered_instructions(), 3u);
  first.BeginSegment(12, RegisterFile());
  EXPECT_EQ(writer.segments.at(0).sequence, 5u);
}

TEST(ThreadLogTest, NumbersMayBeGiven) {
  FakeTraceWriter writer;
  ThreadLog log(&writer, kThread, nullptr);
  const std::vector<uint64_t> counts = {3, 4};
  log.BeginSegment(0, 20, RegisterFile());
  EXPECT_EQ(log.NoteSequence(31), 31u);
  log.OrderRun(5, 40, counts);
  EXPECT_EQ(writer.segments.at(0).sequence, 20u);
  EXPECT_EQ(RunOf(writer.records.at(0)).first_sequence, 40u);
  EXPECT_EQ(log.kernel_events(), 1u);
  EXPECT_EQ(log.ordered_instructions(), 2u);
}

TEST(ThreadLogTest, AReservedNumberIsAnEventOnceItIsUsed) {
  FakeTraceWriter writer;
  Sequence sequence;
  ThreadLog log(&writer, kThread, &sequence);
  EXPECT_EQ(log.ReserveSequence(), 1u);
  EXPECT_EQ(log.ReserveSequence(), 2u);
  EXPECT_EQ(log.NextSequence(), 3u);
  EXPECT_EQ(log.UseReserved(2), 2u);
  EXPECT_EQ(log.kernel_events(), 2u);
  EXPECT_EQ(sequence.events(), 2u);
}

TEST(ThreadLogTest, SegmentsAreNumberedAndEventsHaveTheThread) {
  FakeTraceWriter writer;
  Sequence sequence;
  ThreadLog log(&writer, kThread, &sequence);
  log.BeginSegment(0, RegisterFile());
  log.EndSegment(9, RegisterFile());
  log.BeginSegment(9, RegisterFile());
  log.Event({.kind = EventKind::kSlice});
  ASSERT_EQ(writer.segments.size(), 2u);
  EXPECT_EQ(writer.segments[1].thread, kThread);
  EXPECT_EQ(writer.segments[1].number, 1u);
  EXPECT_EQ(log.segments(), 2u);
  EXPECT_EQ(writer.events.at(0).thread, kThread);
}

TEST(ThreadLogTest, NothingIsWrittenAfterAnError) {
  FakeTraceWriter writer;
  Sequence sequence;
  ThreadLog log(&writer, kThread, &sequence);
  log.BeginSegment(0, RegisterFile());
  writer.error = absl::ResourceExhaustedError("disk full");
  log.Append(1, Gap{"refused"});
  writer.error = absl::OkStatus();
  EXPECT_FALSE(log.status().ok());
  log.Keep(absl::InternalError("another"));
  log.Append(2, Gap{"after"});
  log.BeginSegment(3, RegisterFile());
  log.Event({.kind = EventKind::kSlice});
  EXPECT_TRUE(absl::IsResourceExhausted(log.status()));  // the first one
  EXPECT_TRUE(writer.records.empty());
  EXPECT_TRUE(writer.events.empty());
  EXPECT_EQ(writer.segments.size(), 1u);
}

}  // namespace
}  // namespace hindsight
