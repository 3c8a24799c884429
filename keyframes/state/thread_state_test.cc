#include "keyframes/state/thread_state.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording({.signal_every = 40, .full_keyframes = true});
  return *kToy;
}

ThreadState StateOf(const ToyRecording& toy) {
  auto state = ThreadState::Create(toy.trace());
  EXPECT_TRUE(state.ok()) << state.status();
  return *std::move(state);
}

TEST(ThreadStateTest, StepsCountFromTheStateAnEventLedTo) {
  const ThreadState state = StateOf(Toy());
  const uint64_t first = std::min(Toy().syscall_counts().front(), Toy().signal_counts().front());
  EXPECT_EQ(state.PositionAt(Toy().begin_count()), (Position{0, 0}));
  EXPECT_EQ(state.PositionAt(first), (Position{0, first - Toy().begin_count()}));
  EXPECT_EQ(state.PositionAt(first + 1), (Position{1, 0}));
  EXPECT_EQ(state.PositionAt(first + 3), (Position{1, 2}));
}

TEST(ThreadStateTest, EveryCountHasOnePositionAndBack) {
  const ThreadState state = StateOf(Toy());
  Position last = state.PositionAt(Toy().begin_count());
  for (uint64_t count = Toy().begin_count() + 1; count <= Toy().end_count(); ++count) {
    const Position position = state.PositionAt(count);
    ASSERT_LT(last, position);
    ASSERT_EQ(*state.CountAt(position), count);
    last = position;
  }
}

TEST(ThreadStateTest, PositionsThatAreNotRecordedAreRefused) {
  const ThreadState state = StateOf(Toy());
  EXPECT_TRUE(absl::IsOutOfRange(state.CountAt({0, 1 << 20}).status()));
  EXPECT_TRUE(absl::IsOutOfRange(state.CountAt({1 << 20, 0}).status()));
  const Position end = state.PositionAt(Toy().end_count());
  EXPECT_TRUE(absl::IsOutOfRange(state.CountAt({end.sequence, end.steps + 1}).status()));
}

TEST(ThreadStateTest, EventsAreFoundFromTheStateTheyStartIn) {
  const ThreadState state = StateOf(Toy());
  for (uint64_t count : Toy().signal_counts()) {
    ASSERT_NE(state.SignalFrom(count), nullptr);
    EXPECT_EQ(state.SignalFrom(count)->number, ToyRecording::kSignal);
    EXPECT_EQ(state.SignalFrom(count + 1), nullptr);
  }
  for (uint64_t count : Toy().syscall_counts()) {
    ASSERT_NE(state.SyscallFrom(count), nullptr);
    EXPECT_EQ(state.NextSyscall(count), state.SyscallFrom(count));
    EXPECT_NE(state.NextSyscall(count + 1), state.SyscallFrom(count));
  }
  EXPECT_EQ(state.NextSyscall(Toy().syscall_counts().back() + 1), nullptr);
  EXPECT_EQ(state.PreviousSyscall(Toy().syscall_counts().front()), nullptr);
}

TEST(ThreadStateTest, WhereSegmentsMeetTheStateBelongsToTheLater) {
  const ThreadState state = StateOf(Toy());
  const auto& segments = Toy().trace()->segments(state.thread());
  EXPECT_EQ(state.SegmentAt(segments[1].first_count), 1);
  EXPECT_EQ(state.SegmentAt(segments[1].first_count - 1), 0);
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

  ThreadState State() const { return *ThreadState::Create(reader_.get()); }

 private:
  std::string directory_;
  std::unique_ptr<TraceReader> reader_;
};

TEST(ThreadStateTest, EventsBehindTheLastStateAreLeftOut) {
  ProcessEvent call;
  call.kind = EventKind::kSyscall;
  call.thread = 1;
  call.sequence = 1;
  call.count = 200;
  const ThreadState state = EventTrace({call}).State();
  EXPECT_TRUE(state.events().empty());
  EXPECT_EQ(state.PositionAt(100), (Position{0, 100}));
}

TEST(ThreadStateTest, AThreadThatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ThreadState::Create(Toy().trace(), 4711).status()));
}

}  // namespace
}  // namespace hindsight
