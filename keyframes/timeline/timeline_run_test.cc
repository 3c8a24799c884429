// Runs with stops, against a brute-force answer from the known states.

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "absl/status/status.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "keyframes/timeline/timeline.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

using State = ToyRecording::State;
using Field = uint64_t State::*;

const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording(
      {.iterations = 260, .segment_states = 600, .signal_every = 40, .full_keyframes = true});
  return *kToy;
}

class TimelineRunTest : public testing::Test {
 protected:
  TimelineRunTest() : timeline_(*Timeline::Open(Toy().trace())) {}

  RunStop Run(const RunRequest& request) {
    auto stop = timeline_->Run(request);
    EXPECT_TRUE(stop.ok()) << stop.status();
    return stop.ok() ? *stop : RunStop{};
  }
  void Seek(uint64_t count) { ASSERT_TRUE(timeline_->SeekTo(count - Toy().begin_count()).ok()); }
  uint64_t count() const { return timeline_->count(ToyRecording::kThread); }

  std::unique_ptr<Timeline> timeline_;
};

RunRequest Request(Direction direction) {
  RunRequest request;
  request.direction = direction;
  request.stop_for_signal = [](int) { return false; };
  return request;
}

RunRequest Forward() { return Request(Direction::kForward); }
RunRequest Backward() { return Request(Direction::kBackward); }

bool AtPc(uint64_t count, uint64_t address) {
  const State& state = Toy().at(count);
  return state.registers.rip == address && !state.signal_next;
}

// First state in (from, end] / last in [begin, from) for which `holds`; the end if there is none.
uint64_t Next(uint64_t from, const std::function<bool(uint64_t)>& holds) {
  for (uint64_t c = from + 1; c < Toy().end_count(); ++c) {
    if (holds(c)) return c;
  }
  return Toy().end_count();
}
uint64_t Previous(uint64_t from, const std::function<bool(uint64_t)>& holds) {
  for (uint64_t c = from; c-- > Toy().begin_count();) {
    if (holds(c)) return c;
  }
  return Toy().begin_count();
}

bool Changes(uint64_t count, Field field) {
  return Toy().at(count).*field != Toy().at(count + 1).*field;
}

TEST_F(TimelineRunTest, ForwardStopsAtBreakpointsOneAfterTheOther) {
  RunRequest request = Forward();
  request.breakpoints = {{.address = ToyRecording::Callee()}};
  request.leave_first_breakpoint = true;
  for (uint64_t at = count(); at < Toy().end_count();) {
    const uint64_t expected = Next(at, [](uint64_t c) { return AtPc(c, ToyRecording::Callee()); });
    const RunStop stop = Run(request);
    ASSERT_EQ(count(), expected);
    ASSERT_EQ(stop.kind, expected == Toy().end_count() ? StopKind::kEnd : StopKind::kBreakpoint);
    at = expected;
  }
  EXPECT_EQ(Run(request).kind, StopKind::kEnd);
}

TEST_F(TimelineRunTest, BackwardStopsAtTheSameBreakpointsInReverse) {
  RunRequest request = Backward();
  request.breakpoints = {{.address = ToyRecording::Callee()}, {.address = 0x1234}};
  Seek(Toy().end_count());
  for (uint64_t at = count(); at > Toy().begin_count();) {
    const uint64_t expected =
        Previous(at, [](uint64_t c) { return AtPc(c, ToyRecording::Callee()); });
    const RunStop stop = Run(request);
    ASSERT_EQ(count(), expected);
    ASSERT_EQ(stop.kind,
              expected == Toy().begin_count() ? StopKind::kBegin : StopKind::kBreakpoint);
    at = expected;
  }
  EXPECT_EQ(Run(request).kind, StopKind::kBegin);
}

TEST_F(TimelineRunTest, ForwardReportsTheBreakpointItStartsOnUnlessToldToLeaveIt) {
  RunRequest request = Forward();
  request.breakpoints = {{.address = ToyRecording::LoopHead()}};
  EXPECT_EQ(Run(request).kind, StopKind::kBreakpoint);
  EXPECT_EQ(count(), Toy().begin_count());
  request.leave_first_breakpoint = true;
  EXPECT_EQ(Run(request).kind, StopKind::kBreakpoint);
  EXPECT_GT(count(), Toy().begin_count());
}

// Runs over all changes of a field, both ways.
struct Watched {
  uint64_t address;
  Field field;
};

class WatchTest : public TimelineRunTest, public testing::WithParamInterface<Watched> {};

TEST_P(WatchTest, ForwardStopsBehindEachChange) {
  RunRequest request = Forward();
  request.watchpoints = {{.address = GetParam().address, .length = 8}};
  for (int i = 0; i < 400 && count() < Toy().end_count(); ++i) {
    const uint64_t from = count();
    const uint64_t expected =
        Next(from, [&](uint64_t c) { return Changes(c - 1, GetParam().field); });
    const RunStop stop = Run(request);
    ASSERT_EQ(count(), expected) << "from " << from;
    ASSERT_EQ(stop.kind, expected == Toy().end_count() ? StopKind::kEnd : StopKind::kWatchpoint);
    ASSERT_EQ(*timeline_->registers(ToyRecording::kThread), Toy().at(expected).registers);
  }
}

TEST_P(WatchTest, BackwardStopsBeforeEachChange) {
  RunRequest request = Backward();
  request.watchpoints = {{.address = GetParam().address, .length = 8}};
  Seek(Toy().end_count());
  for (int i = 0; i < 400 && count() > Toy().begin_count(); ++i) {
    const uint64_t from = count();
    const uint64_t expected =
        Previous(from, [&](uint64_t c) { return Changes(c, GetParam().field); });
    const RunStop stop = Run(request);
    ASSERT_EQ(count(), expected) << "from " << from;
    if (!Changes(expected, GetParam().field)) {
      ASSERT_EQ(stop.kind, StopKind::kBegin);
      break;
    }
    ASSERT_EQ(stop.kind, StopKind::kWatchpoint);
    uint64_t value = 0;
    auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), 8);
    ASSERT_TRUE(timeline_->ReadMemory(ToyRecording::kThread, GetParam().address, bytes).ok());
    ASSERT_EQ(value, Toy().at(expected).*GetParam().field);
  }
}

INSTANTIATE_TEST_SUITE_P(Fields, WatchTest,
                         testing::Values(Watched{ToyRecording::kSum, &State::sum},
                                         Watched{ToyRecording::kRare, &State::rare},
                                         Watched{ToyRecording::kSame, &State::same},
                                         Watched{ToyRecording::kAnswer, &State::answer},
                                         Watched{ToyRecording::kString, &State::string}));

TEST_F(TimelineRunTest, AReadStopsAReadWatchpoint) {
  RunRequest request = Forward();
  request.watchpoints = {{.address = ToyRecording::kSum, .length = 8, .kind = WatchKind::kRead}};
  ASSERT_EQ(Run(request).kind, StopKind::kWatchpoint);
  EXPECT_EQ(count(), Toy().begin_count() + 1);
  Seek(Toy().begin_count() + 30);
  request.direction = Direction::kBackward;
  const RunStop stop = Run(request);
  EXPECT_EQ(stop.kind, StopKind::kWatchpoint);
  EXPECT_EQ(stop.watch, WatchKind::kRead);
}

TEST_F(TimelineRunTest, AChangeFirstSeenInALaterSegmentIsFoundBothWays) {
  // The toy kernel wrote the buffer long before the program reads it.
  RunRequest request = Forward();
  request.watchpoints = {{.address = ToyRecording::kBuffer, .length = 8}};
  ASSERT_EQ(Run(request).kind, StopKind::kWatchpoint);
  const uint64_t after = count();
  Seek(Toy().end_count());
  request.direction = Direction::kBackward;
  std::optional<uint64_t> first;
  while (Run(request).kind == StopKind::kWatchpoint) first = count();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(*first + 1, after);
}

// Random stops from random places, conditions and all.
class RandomStops {
 public:
  explicit RandomStops(uint32_t seed) : random_(seed) {}

  uint64_t Between(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }
  bool Coin() { return Between(0, 1) != 0; }

  // Adds stops to `request`; `timeline` is what conditions read.
  void Add(RunRequest* request, Timeline* timeline) {
    const uint64_t addresses[] = {ToyRecording::LoopHead(), ToyRecording::Callee(),
                                  ToyRecording::Handler(), ToyRecording::SyscallInstruction()};
    const uint64_t modulus = Between(2, 40);
    condition_ = [modulus](const State& state) { return state.registers.gpr[kR12] % modulus == 0; };
    auto condition = [timeline, modulus](int32_t) {
      return timeline->registers(ToyRecording::kThread)->gpr[kR12] % modulus == 0;
    };
    for (uint64_t address : addresses) {
      if (!Coin()) continue;
      const bool conditional = Coin();
      request->breakpoints.push_back({.address = address});
      if (conditional) request->breakpoints.back().condition = condition;
      breakpoints_.push_back({address, conditional});
    }
    const Watched fields[] = {{ToyRecording::kRare, &State::rare},
                              {ToyRecording::kAnswer, &State::answer},
                              {ToyRecording::kSum, &State::sum}};
    for (const Watched& field : fields) {
      if (Between(0, 2) != 0) continue;
      const bool conditional = Coin();
      request->watchpoints.push_back({.address = field.address, .length = 8});
      if (conditional) request->watchpoints.back().condition = condition;
      watches_.push_back({field.field, conditional});
    }
  }

  bool BreaksAt(uint64_t count) const {
    return std::any_of(breakpoints_.begin(), breakpoints_.end(), [&](const auto& stop) {
      return AtPc(count, stop.first) && (!stop.second || condition_(Toy().at(count)));
    });
  }
  // Whether the transition out of `count` is a hit whose condition holds in `shown`.
  bool WatchHits(uint64_t count, uint64_t shown) const {
    return std::any_of(watches_.begin(), watches_.end(), [&](const auto& stop) {
      return Changes(count, stop.first) && (!stop.second || condition_(Toy().at(shown)));
    });
  }

 private:
  std::mt19937 random_;
  std::function<bool(const State&)> condition_;
  std::vector<std::pair<uint64_t, bool>> breakpoints_;
  std::vector<std::pair<Field, bool>> watches_;
};

TEST_F(TimelineRunTest, RandomStopsAreFoundWhereBruteForceFindsThem) {
  const uint32_t seed = TestSeed();
  for (uint32_t i = 0; i < 300; ++i) {
    SCOPED_TRACE(testing::Message() << "seed " << seed + i);
    RandomStops stops(seed + i);
    const uint64_t start = stops.Between(Toy().begin_count() + 1, Toy().end_count() - 1);
    const bool forward = stops.Coin();
    RunRequest request = forward ? Forward() : Backward();
    request.leave_first_breakpoint = true;
    stops.Add(&request, timeline_.get());
    Seek(start);
    const RunStop stop = Run(request);
    const uint64_t expected =
        forward ? Next(start,
                       [&](uint64_t c) { return stops.BreaksAt(c) || stops.WatchHits(c - 1, c); })
                : Previous(start,
                           [&](uint64_t c) { return stops.BreaksAt(c) || stops.WatchHits(c, c); });
    ASSERT_EQ(count(), expected) << "from " << start << (forward ? " forward" : " backward");
    ASSERT_EQ(*timeline_->registers(ToyRecording::kThread), Toy().at(expected).registers);
    const bool at_end = expected == (forward ? Toy().end_count() : Toy().begin_count());
    if (!at_end) {
      EXPECT_TRUE(stop.kind == StopKind::kBreakpoint || stop.kind == StopKind::kWatchpoint);
    }
  }
}

TEST_F(TimelineRunTest, SignalsStopInTheStateBeforeDeliveryBothWays) {
  RunRequest request = Forward();
  request.stop_for_signal = nullptr;
  ASSERT_GE(Toy().signal_counts().size(), 3);
  for (uint64_t expected : Toy().signal_counts()) {
    const RunStop stop = Run(request);
    ASSERT_EQ(stop.kind, StopKind::kSignal);
    EXPECT_EQ(stop.signal, ToyRecording::kSignal);
    EXPECT_EQ(count(), expected);
  }
  EXPECT_EQ(Run(request).kind, StopKind::kEnd);
  request.direction = Direction::kBackward;
  for (size_t i = Toy().signal_counts().size(); i-- > 0;) {
    ASSERT_EQ(Run(request).kind, StopKind::kSignal);
    EXPECT_EQ(count(), Toy().signal_counts()[i]);
  }
  EXPECT_EQ(Run(request).kind, StopKind::kBegin);
}

TEST_F(TimelineRunTest, SystemCallsStopBeforeAndBehind) {
  RunRequest request = Forward();
  request.stop_for_syscall = [](int64_t number) { return number == 1; };
  for (uint64_t call : Toy().syscall_counts()) {
    RunStop stop = Run(request);
    ASSERT_EQ(stop.kind, StopKind::kSyscallEntry);
    ASSERT_EQ(count(), call);
    stop = Run(request);
    ASSERT_EQ(stop.kind, StopKind::kSyscallReturn);
    ASSERT_EQ(count(), call + 1);
  }
  EXPECT_EQ(Run(request).kind, StopKind::kEnd);
  request.direction = Direction::kBackward;
  EXPECT_EQ(Run(request).kind, StopKind::kSyscallReturn);
  EXPECT_EQ(count(), Toy().syscall_counts().back() + 1);
  EXPECT_EQ(Run(request).kind, StopKind::kSyscallEntry);
  EXPECT_EQ(count(), Toy().syscall_counts().back());
  request.stop_for_syscall = [](int64_t number) { return number == 2; };
  EXPECT_EQ(Run(request).kind, StopKind::kBegin);
}

TEST_F(TimelineRunTest, SteppingARangeEndsBehindIt) {
  RunRequest request = Forward();
  request.step = true;
  request.range_start = ToyRecording::LoopHead();
  request.range_end = ToyRecording::LoopHead() + 12;
  EXPECT_EQ(Run(request).kind, StopKind::kStep);
  EXPECT_GE(timeline_->registers(ToyRecording::kThread)->rip, request.range_end);
  const uint64_t after = count();
  request.direction = Direction::kBackward;
  request.range_start = request.range_end = 0;
  EXPECT_EQ(Run(request).kind, StopKind::kStep);
  EXPECT_EQ(count(), after - 1);
}

TEST_F(TimelineRunTest, AStepBackOverAWriteReportsItsWatchpoint) {
  RunRequest request = Forward();
  request.watchpoints = {{.address = ToyRecording::kSum, .length = 8}};
  ASSERT_EQ(Run(request).kind, StopKind::kWatchpoint);
  const uint64_t after = count();
  request.direction = Direction::kBackward;
  request.step = true;
  EXPECT_EQ(Run(request).kind, StopKind::kWatchpoint);
  EXPECT_EQ(count(), after - 1);
  EXPECT_EQ(*timeline_->registers(ToyRecording::kThread), Toy().at(count()).registers);
}

TEST_F(TimelineRunTest, ARaisedInterruptStopsAtOnceAndMovesNothing) {
  std::atomic<bool> interrupt{true};
  Seek(Toy().end_count() - 1);
  RunRequest request = Backward();
  request.breakpoints = {{.address = 0x1234}};
  request.interrupt = &interrupt;
  EXPECT_EQ(Run(request).kind, StopKind::kInterrupted);
  EXPECT_EQ(count(), Toy().end_count() - 1);
  Seek(Toy().begin_count());
  request.direction = Direction::kForward;
  EXPECT_EQ(Run(request).kind, StopKind::kInterrupted);
  EXPECT_EQ(*timeline_->registers(ToyRecording::kThread), Toy().at(count()).registers);
}

}  // namespace
}  // namespace hindsight
