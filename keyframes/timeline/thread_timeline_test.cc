#include "keyframes/timeline/thread_timeline.h"

#include <optional>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "keyframes/state/process_state.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

constexpr int32_t kThread = ToyRecording::kThread;

const ToyRecording& Toy() {
  static const auto* const kToy = new ToyRecording();
  return *kToy;
}

// A process that knows nothing but what the thread itself does.
class FakeHost final : public ThreadHost, public ThreadViews {
 public:
  bool Evaluate(int32_t thread, uint64_t count, bool, const StopCondition& condition) override {
    evaluated_at = count;
    return condition(thread);
  }
  absl::Status ReadBefore(int32_t, uint64_t, uint64_t, uint64_t, absl::Span<uint8_t>) override {
    return absl::NotFoundError("not known");
  }
  bool ComparesKeyframe(int32_t, uint64_t, uint64_t) override { return true; }
  absl::StatusOr<const SegmentReplay*> ReplayAt(int32_t, uint64_t,
                                                const std::atomic<bool>*) override {
    return absl::NotFoundError("not known");
  }
  absl::StatusOr<std::vector<Learned>> LastKnown(int32_t, std::optional<uint64_t>, uint64_t,
                                                 uint64_t, const PageBits&, uint64_t,
                                                 const std::atomic<bool>*) override {
    return absl::NotFoundError("not known");
  }
  absl::Status ReadBirth(uint64_t, absl::Span<uint8_t>) override {
    return absl::NotFoundError("not known");
  }
  absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t) override { return false; }

  uint64_t evaluated_at = 0;
};

class ThreadTimelineTest : public testing::Test {
 protected:
  uint64_t begin() const { return Toy().begin_count(); }
  uint64_t end() const { return Toy().end_count(); }

  // The first (or last) state in [low, high) from which `pc` is executed.
  static std::optional<uint64_t> First(uint64_t pc, uint64_t low, uint64_t high) {
    for (; low < high; ++low) {
      if (Toy().at(low).registers.rip == pc) return low;
    }
    return std::nullopt;
  }
  static std::optional<uint64_t> Last(uint64_t pc, uint64_t low, uint64_t high) {
    while (high-- > low) {
      if (Toy().at(high).registers.rip == pc) return high;
    }
    return std::nullopt;
  }
  std::optional<ThreadStop> Forward(const RunRequest& request, uint64_t from) {
    thread_.stops().Set(request);
    auto stop = thread_.forward().Run(request, from, end(), /*leave_first=*/true);
    EXPECT_TRUE(stop.ok()) << stop.status();
    return stop.value_or(std::nullopt);
  }
  std::optional<BackwardSearch::Hit> Backward(const RunRequest& request, uint64_t before) {
    thread_.stops().Set(request);
    auto hit = thread_.backward().LastHitBefore(request, begin(), begin(), before);
    EXPECT_TRUE(hit.ok()) << hit.status();
    return hit.value_or(std::nullopt);
  }

  FakeHost host_;
  ProcessState process_ = *ProcessState::Create(Toy().trace());
  ReplayPool pool_{Toy().trace(), 3, uint64_t{16} << 20};
  SegmentSearch search_{Toy().trace(), 2};
  MemoryView memory_{Toy().trace(), &process_, &host_, 1 << 20};
  ThreadTimeline thread_{&process_.thread(kThread),
                         {Toy().trace(), &pool_, &search_, &memory_, &host_}};
};

TEST_F(ThreadTimelineTest, GoesToStatesOfAnySegment) {
  for (const uint64_t target : {begin(), end(), begin() + 10, (begin() + end()) / 2}) {
    ASSERT_TRUE(thread_.replay().GoTo(target, /*dense=*/false, nullptr).ok());
    EXPECT_EQ(thread_.replay().here()->registers(), Toy().at(target).registers) << target;
  }
}

TEST_F(ThreadTimelineTest, StepsCrossSegmentsBothWays) {
  std::optional<WatchHit> hit;
  const uint64_t border = process_.thread(kThread).SegmentAt(end()) > 0
                              ? (*Toy().trace()->LoadSegment(kThread, 1))->info().first_count
                              : begin() + 5;
  for (uint64_t count = border - 3; count < border + 3; ++count) {
    ASSERT_TRUE(*thread_.StepForward(count, &hit, nullptr));
    EXPECT_EQ(thread_.count(), count + 1);
  }
  for (uint64_t count = border + 3; count > border - 3; --count) {
    ASSERT_TRUE(*thread_.StepBackward(count, &hit, nullptr));
    EXPECT_EQ(thread_.count(), count - 1);
    EXPECT_EQ(thread_.replay().here()->registers(), Toy().at(count - 1).registers);
  }
  EXPECT_FALSE(*thread_.StepBackward(begin(), &hit, nullptr));
  EXPECT_FALSE(*thread_.StepForward(end(), &hit, nullptr));
}

TEST_F(ThreadTimelineTest, TheFirstBreakpointAheadIsFound) {
  const RunRequest request = {.breakpoints = {{.address = ToyRecording::Callee()}}};
  const auto stop = Forward(request, begin() + 100);
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->stop.kind, StopKind::kBreakpoint);
  EXPECT_EQ(stop->count, First(ToyRecording::Callee(), begin() + 101, end()));
}

TEST_F(ThreadTimelineTest, TheLastBreakpointBeforeIsFound) {
  const RunRequest request = {.breakpoints = {{.address = ToyRecording::Callee()}}};
  for (const uint64_t before : {end(), begin() + 3000, begin() + 60}) {
    const auto hit = Backward(request, before);
    ASSERT_EQ(hit.has_value(), Last(ToyRecording::Callee(), begin(), before).has_value());
    if (!hit.has_value()) continue;
    EXPECT_EQ(hit->count, Last(ToyRecording::Callee(), begin(), before));
  }
}

TEST_F(ThreadTimelineTest, ConditionsDecide) {
  const uint64_t wanted = *First(ToyRecording::Callee(), begin() + 4000, end());
  RunRequest request = {
      .breakpoints = {{.address = ToyRecording::Callee(), .condition = [&](int32_t thread) {
                         EXPECT_EQ(thread, kThread);
                         return host_.evaluated_at == wanted;
                       }}}};
  const auto stop = Forward(request, begin());
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->count, wanted);
  const auto hit = Backward(request, end());
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->count, wanted);
  request.breakpoints[0].thread = kThread + 1;
  EXPECT_FALSE(Forward(request, begin()).has_value());
}

TEST_F(ThreadTimelineTest, TheLastChangeOfWatchedMemoryIsFound) {
  const RunRequest request = {.watchpoints = {{.address = ToyRecording::kRare, .length = 8}}};
  uint64_t expected = end() - 1;
  while (Toy().at(expected).rare == Toy().at(expected + 1).rare) --expected;
  const auto hit = Backward(request, end());
  ASSERT_TRUE(hit.has_value());
  EXPECT_TRUE(hit->is_watch);
  EXPECT_EQ(hit->count, expected);
  EXPECT_EQ(thread_.backward().DescribeHit(request, *hit).kind, StopKind::kWatchpoint);
}

TEST_F(ThreadTimelineTest, KnowsWhenALineWasWrittenLast) {
  const uint64_t here = begin() + 1500;
  ASSERT_TRUE(thread_.replay().GoTo(here, /*dense=*/false, nullptr).ok());
  uint64_t changed = here;
  while (Toy().at(changed - 1).sum == Toy().at(changed).sum) --changed;
  auto known =
      thread_.LastKnown(ToyRecording::kData, /*bytes=*/PageBits().set(), /*since=*/0, nullptr);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_FALSE((*known)[0].imported);
  EXPECT_GE((*known)[0].count, changed);
  EXPECT_LE((*known)[0].count, here);
}

}  // namespace
}  // namespace hindsight
