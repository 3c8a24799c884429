#include "keyframes/timeline/timeline.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/status/status.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

// One recording for all tests that only read it: about 14,000 states in six segments.
const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording({.signal_every = 40, .full_keyframes = true});
  return *kToy;
}

std::unique_ptr<Timeline> Open(const ToyRecording& toy, const TimelineOptions& options = {}) {
  auto timeline = Timeline::Open(toy.trace(), options);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

uint64_t Peek(Timeline& timeline, uint64_t address) {
  uint64_t value = 0;
  auto out = absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), sizeof(value));
  auto size = timeline.ReadMemory(ToyRecording::kThread, address, out);
  EXPECT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, sizeof(value));
  return value;
}

// The state is the one the oracle says it is.
void ExpectTruth(Timeline& timeline, const ToyRecording& toy = Toy()) {
  const ToyRecording::State& truth = toy.at(timeline.count(ToyRecording::kThread));
  ASSERT_EQ(*timeline.registers(ToyRecording::kThread), truth.registers)
      << "count " << timeline.count(ToyRecording::kThread);
  ASSERT_EQ(Peek(timeline, ToyRecording::kSum), truth.sum)
      << "count " << timeline.count(ToyRecording::kThread);
  ASSERT_EQ(Peek(timeline, ToyRecording::kString), truth.string)
      << "count " << timeline.count(ToyRecording::kThread);
}

uint64_t Between(std::mt19937& random, uint64_t low, uint64_t high) {
  return std::uniform_int_distribution<uint64_t>(low, high)(random);
}

TEST(TimelineTest, OpensAtTheBeginning) {
  auto timeline = Open(Toy());
  EXPECT_EQ(timeline->count(ToyRecording::kThread), Toy().begin_count());
  EXPECT_EQ(timeline->moment(), 0);
  EXPECT_EQ(timeline->end_moment(), Toy().end_count() - Toy().begin_count());
  EXPECT_EQ(timeline->position(), (Position{0, 0}));
  EXPECT_EQ(timeline->percent(), 0);
  ExpectTruth(*timeline);
}

TEST(TimelineTest, SeekEqualsReplay) {
  std::mt19937 random(TestSeed());
  auto timeline = Open(Toy());
  for (int i = 0; i < 200; ++i) {
    const uint64_t target = Between(random, Toy().begin_count(), Toy().end_count());
    ASSERT_TRUE(timeline->SeekTo(target - Toy().begin_count()).ok());
    ASSERT_EQ(timeline->count(ToyRecording::kThread), target);
    ExpectTruth(*timeline);
  }
}

TEST(TimelineTest, StepsThroughEveryStateAndBack) {
  auto timeline = Open(Toy());
  for (uint64_t count = Toy().begin_count(); count < Toy().end_count(); ++count) {
    ASSERT_TRUE(*timeline->StepForward(ToyRecording::kThread));
    ASSERT_EQ(timeline->count(ToyRecording::kThread), count + 1);
    ASSERT_EQ(*timeline->registers(ToyRecording::kThread), Toy().at(count + 1).registers)
        << count + 1;
  }
  EXPECT_FALSE(*timeline->StepForward(ToyRecording::kThread));
  for (uint64_t count = Toy().end_count(); count > Toy().begin_count(); --count) {
    ASSERT_TRUE(*timeline->StepBackward(ToyRecording::kThread));
    ASSERT_EQ(timeline->count(ToyRecording::kThread), count - 1);
    ExpectTruth(*timeline);
  }
  EXPECT_FALSE(*timeline->StepBackward(ToyRecording::kThread));
}

TEST(TimelineTest, ManyForwardThenAsManyBackIsWhereYouWere) {
  std::mt19937 random(TestSeed());
  auto timeline = Open(Toy());
  for (int i = 0; i < 20; ++i) {
    const uint64_t start = Between(random, Toy().begin_count(), Toy().end_count() - 300);
    const uint64_t steps = Between(random, 1, 300);
    ASSERT_TRUE(timeline->SeekTo(start - Toy().begin_count()).ok());
    for (uint64_t k = 0; k < steps; ++k) ASSERT_TRUE(*timeline->StepForward(ToyRecording::kThread));
    for (uint64_t k = 0; k < steps; ++k)
      ASSERT_TRUE(*timeline->StepBackward(ToyRecording::kThread));
    ASSERT_EQ(timeline->count(ToyRecording::kThread), start);
    ExpectTruth(*timeline);
  }
}

// A wild walk: whatever was done before, the state is that of the count.
void Walk(Timeline& timeline, uint32_t seed, int moves) {
  std::mt19937 random(seed);
  for (int i = 0; i < moves; ++i) {
    switch (Between(random, 0, 3)) {
      case 0:
        ASSERT_TRUE(timeline
                        .SeekTo(Between(random, Toy().begin_count(), Toy().end_count()) -
                                Toy().begin_count())
                        .ok());
        break;
      case 1:
        for (uint64_t n = Between(random, 1, 40); n > 0; --n) {
          ASSERT_TRUE(timeline.StepBackward(ToyRecording::kThread).ok());
        }
        break;
      case 2:
        for (uint64_t n = Between(random, 1, 40); n > 0; --n) {
          ASSERT_TRUE(timeline.StepForward(ToyRecording::kThread).ok());
        }
        break;
      default: {
        RunRequest request;
        request.direction = Between(random, 0, 1) ? Direction::kForward : Direction::kBackward;
        request.breakpoints.push_back({.address = ToyRecording::Callee()});
        request.leave_first_breakpoint = true;
        ASSERT_TRUE(timeline.Run(request).ok());
      }
    }
    ExpectTruth(timeline);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(TimelineTest, AnyWalkShowsTheTruth) {
  auto timeline = Open(Toy());
  Walk(*timeline, TestSeed(), 300);
}

TEST(TimelineTest, CheckpointsChangeNothingButTime) {
  const uint32_t seed = TestSeed();
  auto starved = Open(Toy(), {.checkpoint_bytes = 3 * 20'000, .view_cache_bytes = 1});
  auto rich = Open(Toy());
  Walk(*starved, seed, 100);
  Walk(*rich, seed, 100);
  EXPECT_EQ(starved->count(ToyRecording::kThread), rich->count(ToyRecording::kThread));
}

TEST(TimelineTest, PositionsLeadBackToTheirCounts) {
  std::mt19937 random(TestSeed());
  auto timeline = Open(Toy());
  for (int i = 0; i < 50; ++i) {
    const uint64_t target = Between(random, Toy().begin_count(), Toy().end_count());
    ASSERT_TRUE(timeline->SeekTo(target - Toy().begin_count()).ok());
    const Position position = timeline->position();
    ASSERT_TRUE(timeline->SeekTo(uint64_t{0}).ok());
    ASSERT_TRUE(timeline->SeekTo(position).ok()) << position;
    EXPECT_EQ(timeline->count(ToyRecording::kThread), target);
  }
}

TEST(TimelineTest, WhatIsNotRecordedIsAnErrorAndNoMove) {
  auto timeline = Open(Toy());
  ASSERT_TRUE(timeline->SeekTo(2000 - Toy().begin_count()).ok());
  EXPECT_TRUE(absl::IsOutOfRange(timeline->SeekTo(Toy().end_count() - Toy().begin_count() + 1)));
  EXPECT_TRUE(absl::IsOutOfRange(timeline->SeekTo(~uint64_t{0})));
  EXPECT_TRUE(absl::IsOutOfRange(timeline->SeekTo(Position{~0ull, 0})));
  uint8_t byte = 0;
  EXPECT_TRUE(absl::IsNotFound(
      timeline->ReadMemory(ToyRecording::kThread, 0x10, absl::MakeSpan(&byte, 1)).status()));
  EXPECT_EQ(timeline->count(ToyRecording::kThread), 2000);
}

TEST(TimelineTest, ReadsStopWhereMemoryIsNotKnown) {
  auto timeline = Open(Toy());
  uint8_t bytes[64];
  auto size = timeline->ReadMemory(ToyRecording::kThread, ToyRecording::kStackTop - 16,
                                   absl::MakeSpan(bytes));
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, 16);
}

TEST(TimelineTest, MemoryOfEarlierSegmentsStaysVisible) {
  // The buffer is read in every 128th iteration only: most segments never touch it.
  auto timeline = Open(Toy());
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        timeline
            ->SeekTo(Between(random, Toy().begin_count(), Toy().end_count()) - Toy().begin_count())
            .ok());
    // What the kernel wrote and the program has not read yet is not known: then the older value is.
    const uint64_t shown = Peek(*timeline, ToyRecording::kBuffer);
    const uint64_t truth = Toy().at(timeline->count(ToyRecording::kThread)).buffer;
    EXPECT_TRUE(shown == truth || shown + 24 == truth || shown == 0) << shown << " " << truth;
  }
}

TEST(TimelineTest, DivergenceLeavesItWhereItWas) {
  const ToyRecording spoiled({.spoil_end = true});
  auto timeline = Open(spoiled);
  ASSERT_TRUE(timeline->SeekTo(uint64_t{3000}).ok());
  RunRequest request;
  request.breakpoints = {{.address = 0x1234}};
  auto stop = timeline->Run(request);
  EXPECT_TRUE(absl::IsDataLoss(stop.status())) << stop.status();
  EXPECT_EQ(timeline->count(ToyRecording::kThread), spoiled.begin_count() + 3000);
  ExpectTruth(*timeline, spoiled);
  ASSERT_TRUE(timeline->StepForward(ToyRecording::kThread).ok());
  ExpectTruth(*timeline, spoiled);
}

// How often each state is replayed, on average, when `request` stops again and again on the way
// back through one long segment with 300 signals in it.
double ReplaysGoingBack(RunRequest request) {
  static const auto* const kLong =
      new ToyRecording({.iterations = 600, .segment_states = 1'000'000, .signal_every = 2});
  const uint64_t stops_expected = kLong->signal_counts().size();
  auto timeline = Open(*kLong);
  EXPECT_TRUE(timeline->SeekTo(timeline->end_moment()).ok());
  const uint64_t before = timeline->statistics().states_replayed;
  request.direction = Direction::kBackward;
  uint64_t stops = 0;
  while (timeline->moment() > 0) {
    auto stop = timeline->Run(request);
    EXPECT_TRUE(stop.ok()) << stop.status();
    if (!stop.ok() || stop->kind == StopKind::kBegin) break;
    ++stops;
  }
  EXPECT_GE(stops, stops_expected);
  const uint64_t replayed = timeline->statistics().states_replayed - before;
  return static_cast<double>(replayed) / static_cast<double>(timeline->end_moment());
}

// What it replays must not grow with the way to the nearest checkpoint left on the way forward:
// from there alone it would be half of the stops.
constexpr double kFewReplays = 30;

TEST(TimelineTest, StoppingAtEachSignalBackwardReplaysEachStateAFewTimes) {
  EXPECT_LT(ReplaysGoingBack({}), kFewReplays);
}

TEST(TimelineTest, AWatchpointNeverHitReplaysNotMuchMoreOnTheWayBackToSignals) {
  EXPECT_LT(
      ReplaysGoingBack({.watchpoints = {{.address = ToyRecording::kData + 0x200, .length = 8}}}),
      kFewReplays);
}

TEST(TimelineTest, StoppingAtABreakpointAgainAndAgainBackwardReplaysEachStateAFewTimes) {
  RunRequest request{.breakpoints = {{.address = ToyRecording::Handler()}}};
  request.stop_for_signal = [](int) { return false; };
  EXPECT_LT(ReplaysGoingBack(request), kFewReplays);
}

}  // namespace
}  // namespace hindsight
