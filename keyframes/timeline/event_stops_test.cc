#include "keyframes/timeline/event_stops.h"

#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording({.signal_every = 40});
  return *kToy;
}

// With one thread, moments are counts from its first one.
uint64_t MomentOf(uint64_t count) { return count - Toy().begin_count(); }

class EventStopsTest : public testing::Test {
 protected:
  EventStopsTest() : process_(*ProcessState::Create(Toy().trace())), events_(&process_) {}

  static RunRequest Syscalls(Direction direction = Direction::kForward) {
    RunRequest request = {.direction = direction};
    request.stop_for_signal = [](int) { return false; };
    request.stop_for_syscall = [](int64_t) { return true; };
    return request;
  }

  const ProcessState process_;
  EventStops events_;
};

TEST_F(EventStopsTest, SignalsStopBeforeTheirDelivery) {
  const auto stop = events_.Next({}, /*only=*/0, 0);
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->stop.kind, StopKind::kSignal);
  EXPECT_EQ(stop->stop.signal, ToyRecording::kSignal);
  EXPECT_EQ(stop->moment, MomentOf(Toy().signal_counts().front()));
  const auto last = events_.Previous({}, /*only=*/0, process_.end_moment());
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->moment, MomentOf(Toy().signal_counts().back()));
}

TEST_F(EventStopsTest, SystemCallsStopBeforeAndAfter) {
  const uint64_t call = MomentOf(Toy().syscall_counts().front());
  const auto entry = events_.Next(Syscalls(), /*only=*/0, 0);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->stop.kind, StopKind::kSyscallEntry);
  EXPECT_EQ(entry->moment, call);
  const auto leave = events_.Next(Syscalls(), /*only=*/0, call);
  ASSERT_TRUE(leave.has_value());
  EXPECT_EQ(leave->stop.kind, StopKind::kSyscallReturn);
  EXPECT_EQ(leave->moment, call + 1);
}

TEST_F(EventStopsTest, EventsOfOtherThreadsMayNotCount) {
  EXPECT_TRUE(events_.Next(Syscalls(), ToyRecording::kThread, 0).has_value());
  EXPECT_FALSE(events_.Next(Syscalls(), ToyRecording::kThread + 1, 0).has_value());
}

TEST_F(EventStopsTest, NothingIsWantedNothingStops) {
  RunRequest request;
  request.stop_for_signal = [](int) { return false; };
  EXPECT_FALSE(events_.Next(request, /*only=*/0, 0).has_value());
  EXPECT_FALSE(events_.Previous(request, /*only=*/0, process_.end_moment()).has_value());
}

TEST_F(EventStopsTest, AStepStopsInTheStateBeforeACall) {
  const uint64_t call = Toy().syscall_counts().front();
  const auto entry = events_.InState(Syscalls(), ToyRecording::kThread, call);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->kind, StopKind::kSyscallEntry);
  EXPECT_FALSE(events_.InState(Syscalls(), ToyRecording::kThread, call - 1).has_value());
}

TEST_F(EventStopsTest, AfterOneCallTheNextIsNotAtTheSameMomentUnlessItFollowsAtOnce) {
  const uint64_t after = MomentOf(Toy().syscall_counts().front()) + 1;
  EXPECT_FALSE(events_.AtSameMoment(Syscalls(), 0, StopKind::kSyscallReturn, after).has_value());
  // The call whose return was passed on the way back is still to be reported.
  EXPECT_TRUE(
      events_.AtSameMoment(Syscalls(Direction::kBackward), 0, StopKind::kSyscallEntry, after)
          .has_value());
}

}  // namespace
}  // namespace hindsight
