#include "keyframes/replay/segment_replay.h"

#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {
namespace {

const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording({.signal_every = 40});
  return *kToy;
}

std::shared_ptr<const Segment> LoadSegment(const ToyRecording& toy, uint64_t number) {
  return *toy.trace()->LoadSegment(toy.trace()->threads().front(), number);
}

class SegmentReplayTest : public testing::Test {
 protected:
  SegmentReplayTest() : replay_(*SegmentReplay::Create(Toy().trace())) { Load(1); }

  void Load(uint64_t number) { ASSERT_TRUE(replay_->Load(LoadSegment(Toy(), number)).ok()); }
  uint64_t first() const { return replay_->segment().info().first_count; }
  uint64_t end() const { return replay_->segment().end_count(); }
  void ExpectTruth() {
    ASSERT_EQ(replay_->registers(), Toy().at(replay_->count()).registers) << replay_->count();
  }

  std::unique_ptr<SegmentReplay> replay_;
};

TEST_F(SegmentReplayTest, BeginsInTheSegmentsFirstState) {
  EXPECT_EQ(replay_->count(), first());
  ExpectTruth();
}

TEST_F(SegmentReplayTest, AdvancesToExactlyTheStateAskedFor) {
  for (uint64_t target : {first() + 1, first() + 2, first() + 777, end()}) {
    ASSERT_TRUE(replay_->AdvanceTo(target).ok());
    EXPECT_EQ(replay_->count(), target);
    ExpectTruth();
  }
  EXPECT_TRUE(replay_->at_end());
}

TEST_F(SegmentReplayTest, StepsMakeEveryTransition) {
  while (!replay_->at_end()) {
    ASSERT_TRUE(replay_->Step().ok());
    ExpectTruth();
  }
}

TEST_F(SegmentReplayTest, GoesBackWithAndWithoutCheckpoints) {
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 100; ++i) {
    if (i == 50) replay_->KeepCheckpoints(1 << 20);
    const uint64_t target = first() + random() % (end() - first() + 1);
    ASSERT_TRUE(replay_->MoveTo(target, /*dense=*/random() % 2 == 0).ok());
    ASSERT_EQ(replay_->count(), target);
    ExpectTruth();
  }
}

TEST_F(SegmentReplayTest, AnotherSegmentMayFollow) {
  ASSERT_TRUE(replay_->AdvanceTo(first() + 100).ok());
  Load(0);
  ExpectTruth();
  ASSERT_TRUE(replay_->AdvanceTo(end()).ok());
  ExpectTruth();
}

TEST_F(SegmentReplayTest, ABreakpointDoesNotCountWhereASignalIsDelivered) {
  Load(0);
  replay_->SetStops({ToyRecording::LoopHead()}, {});
  const uint64_t signal = Toy().signal_counts().front();
  ASSERT_LE(signal, end());
  ASSERT_TRUE(replay_->AdvanceTo(signal).ok());
  EXPECT_EQ(replay_->pc(), ToyRecording::LoopHead());
  EXPECT_TRUE(replay_->SignalIsNext());
  EXPECT_FALSE(replay_->AtBreakpoint());
}

TEST_F(SegmentReplayTest, StopsAreNotedWithoutStopping) {
  replay_->SetStops({ToyRecording::Callee()}, {{.address = ToyRecording::kSum, .length = 8}});
  HitTrace trace;
  ASSERT_TRUE(replay_->AdvanceNoting(end(), &trace, nullptr).ok());
  uint64_t breakpoints = 0, last = 0;
  for (uint64_t count = first(); count < end(); ++count) {
    if (Toy().at(count).registers.rip != ToyRecording::Callee()) continue;
    ++breakpoints;
    last = count;
  }
  EXPECT_EQ(trace.cpu.breakpoint_hits, breakpoints);
  EXPECT_EQ(trace.cpu.last_breakpoint_count, last);
  EXPECT_GT(trace.cpu.watch_hits, 0);
}

TEST_F(SegmentReplayTest, AnInterruptEndsAnAdvance) {
  std::atomic<bool> interrupt{true};
  EXPECT_TRUE(absl::IsCancelled(replay_->AdvanceTo(end(), &interrupt)));
  EXPECT_TRUE(replay_->AdvanceTo(end()).ok());
  ExpectTruth();
}

TEST_F(SegmentReplayTest, AfterADivergenceEarlierStatesAreStillSound) {
  const ToyRecording spoiled({.spoil_hash = true});
  const uint64_t bad = spoiled.syscall_counts()[4];
  auto replay = *SegmentReplay::Create(spoiled.trace());
  ASSERT_TRUE(replay->Load(LoadSegment(spoiled, 0)).ok());
  ASSERT_GT(bad, replay->count());
  const absl::Status status = replay->AdvanceTo(bad + 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  ASSERT_TRUE(replay->MoveTo(bad - 5, /*dense=*/false).ok());
  EXPECT_EQ(replay->registers(), spoiled.at(bad - 5).registers);
  EXPECT_TRUE(absl::IsDataLoss(replay->MoveTo(bad + 1, /*dense=*/true)));
}

// At the start of a turn by which another thread has written kVariables[0], which every iteration
// of every thread writes.
TEST(SegmentReplayTurnTest, BeforeItsTurnAThreadDoesNotSeeWhatOthersWroteSince) {
  const ToyThreads toy;
  constexpr int32_t kThread = ToyThreads::kMain;
  const auto& moments = toy.moments();
  auto replay = *SegmentReplay::Create(toy.trace());
  const auto variable = [&]() -> std::optional<uint64_t> {
    uint64_t value = 0;
    const absl::Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&value), sizeof(value));
    if (!replay->ReadHeld(ToyThreads::kVariables[0], bytes)) return std::nullopt;
    return value;
  };
  int turns = 0;
  std::optional<size_t> last;  // the last moment whose transition the thread made
  for (size_t moment = 0; moment < toy.end_moment(); ++moment) {
    if (moments[moment].thread != kThread) continue;
    const size_t before = last.value_or(moment);
    last = moment;
    const uint64_t count = moments[moment].count;
    const uint64_t seen = moments[before + 1].values[0], present = moments[moment].values[0];
    if (moment <= before + 1 || seen == present) continue;
    std::shared_ptr<const Segment> segment;
    for (const SegmentInfo& info : toy.trace()->segments(kThread)) {
      if (info.first_count < count) segment = *toy.trace()->LoadSegment(kThread, info.number);
    }
    if (segment == nullptr || count >= segment->end_count()) continue;
    ASSERT_TRUE(replay->Load(segment).ok());
    ASSERT_TRUE(replay->MoveToBeforeTurn(count).ok());
    const std::optional<uint64_t> held = variable();
    if (!held.has_value()) continue;  // the segment has not used it yet
    EXPECT_TRUE(replay->before_turn());
    EXPECT_EQ(replay->count(), count);
    EXPECT_EQ(replay->registers(), toy.registers(kThread, count));
    EXPECT_EQ(*held, seen) << count;
    ASSERT_TRUE(replay->MoveTo(count, /*dense=*/false).ok());
    EXPECT_FALSE(replay->before_turn());
    EXPECT_EQ(replay->registers(), toy.registers(kThread, count));
    EXPECT_EQ(variable(), present) << count;
    if (++turns == 10) break;
  }
  EXPECT_GT(turns, 0);
}

TEST_F(SegmentReplayTest, AnInstructionTheHostLacksIsAsFarAsReplayGoes) {
  if (!HostFeatures::OfThisHost().Has(HostFeature::kAvx)) GTEST_SKIP() << "no AVX here";
  const ToyRecording toy({.avx = true});
  auto replay = *SegmentReplay::Create(toy.trace());
  ASSERT_TRUE(replay->Load(LoadSegment(toy, 0)).ok());
  const uint64_t end = replay->segment().end_count();
  EXPECT_TRUE(replay->AdvanceTo(end).ok());

  auto lacking = *SegmentReplay::Create(toy.trace(), HostFeatures());
  ASSERT_TRUE(lacking->Load(LoadSegment(toy, 0)).ok());
  const absl::Status status = lacking->AdvanceTo(end);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("needs avx, which this host lacks"), std::string::npos) << status;
  const uint64_t last = lacking->count();
  EXPECT_EQ(lacking->registers(), toy.at(last).registers);
  ASSERT_TRUE(lacking->MoveTo(last - 5, /*dense=*/true).ok());
  EXPECT_EQ(lacking->registers(), toy.at(last - 5).registers);
  EXPECT_TRUE(absl::IsFailedPrecondition(lacking->MoveTo(last + 1, /*dense=*/true)));
}

}  // namespace
}  // namespace hindsight
