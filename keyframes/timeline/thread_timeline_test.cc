#include "keyframes/timeline/thread_timeline.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <vector>

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
  absl::Status ReadBefore(int32_t, uint64_t, uint64_t, uint64_t, const PageBits&,
                          absl::Span<uint8_t>) override {
    return absl::NotFoundError("not known");
  }
  bool ComparesKeyframe(int32_t, uint64_t, uint64_t) override { return true; }
  bool ViewsMayBeOld() const override { return !old.empty(); }
  absl::StatusOr<std::optional<uint64_t>> FirstOldByte(int32_t, uint64_t count, uint64_t address,
                                                       uint64_t) override {
    compared.push_back(count);
    if (!old.contains(count)) return std::nullopt;
    return address;
  }
  absl::StatusOr<uint64_t> QuietUntil(int32_t, uint64_t count) override {
    return quiet == 0 ? count : (count + quiet - 1) / quiet * quiet;
  }
  absl::StatusOr<const SegmentReplay*> ReplayAt(int32_t, uint64_t,
                                                const std::atomic<bool>*) override {
    return absl::NotFoundError("not known");
  }
  absl::StatusOr<std::vector<Learned>> LastKnown(int32_t, std::optional<uint64_t>, uint64_t,
                                                 uint64_t, const PageBits&, uint64_t,
                                                 const std::atomic<bool>*) override {
    return absl::NotFoundError("not known");
  }
  absl::StatusOr<std::shared_ptr<const Segment>> SegmentAt(int32_t, uint64_t) override {
    return absl::NotFoundError("nobody has seen anything");
  }
  absl::Status FindStores(int32_t, uint64_t, uint64_t, absl::Span<StoredLine>,
                          const std::atomic<bool>*) override {
    return absl::NotFoundError("not known");
  }
  absl::Status ReadBirth(uint64_t, absl::Span<uint8_t>) override {
    return absl::NotFoundError("not known");
  }
  absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t) override { return false; }

  uint64_t evaluated_at = 0;
  // States in which views are old, and those that were asked about. Others store to the same memory
  // in every so many states (0: all the time).
  std::set<uint64_t> old;
  std::vector<uint64_t> compared;
  uint64_t quiet = 0;
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

  // The states from which what is there already is stored to kSame, after the first store.
  std::vector<uint64_t> StoresOfTheSame() {
    std::vector<uint64_t> stores;
    for (uint64_t from = after_first_;;) {
      const auto stop = Forward(access_to_same_, from);
      if (!stop.has_value()) return stores;
      from = stop->count;
      stores.push_back(from - 1);
    }
  }
  const uint64_t after_first_ = begin() + 4;
  const RunRequest write_to_same_ = {
      .watchpoints = {{.address = ToyRecording::kSame, .length = 8}}};
  const RunRequest access_to_same_ = {
      .watchpoints = {{.address = ToyRecording::kSame, .length = 8, .kind = WatchKind::kAccess}}};

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

TEST_F(ThreadTimelineTest, AnAccessIsAlsoAStoreThatChangesNothing) {
  const std::vector<uint64_t> stores = StoresOfTheSame();
  ASSERT_GT(stores.size(), 100u);
  for (const uint64_t count : stores) {
    EXPECT_EQ(Toy().at(count).registers.rip, Toy().at(stores[0]).registers.rip);
  }
  const auto hit = Backward(access_to_same_, end());
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->count, stores.back());
  EXPECT_FALSE(Forward(write_to_same_, after_first_).has_value());
  EXPECT_TRUE(host_.compared.empty());
}

// The thread stores what it has seen, over what others have stored there.
TEST_F(ThreadTimelineTest, AStoreThatChangesNothingInTheViewMayChangeMemory) {
  const std::vector<uint64_t> stores = StoresOfTheSame();
  const uint64_t changes = stores[stores.size() / 2];
  host_.old = {changes};
  const auto stop = Forward(write_to_same_, after_first_);
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->stop.kind, StopKind::kWatchpoint);
  EXPECT_EQ(stop->count, changes + 1);
  for (const uint64_t before : {end(), changes + 1}) {
    const auto hit = Backward(write_to_same_, before);
    ASSERT_TRUE(hit.has_value());
    EXPECT_EQ(hit->count, changes);
  }
  EXPECT_EQ(Backward(write_to_same_, changes)->count, after_first_ - 1);
  EXPECT_FALSE(Forward(write_to_same_, changes + 1).has_value());
  RunRequest of_another = write_to_same_;
  of_another.watchpoints[0].thread = kThread + 1;
  EXPECT_FALSE(Forward(of_another, after_first_).has_value());
}

TEST_F(ThreadTimelineTest, OnlyTheFirstSuchStoreAfterThoseOfOthersIsComparedWithMemory) {
  const std::vector<uint64_t> stores = StoresOfTheSame();
  host_.old = {end()};
  host_.quiet = 1000;
  EXPECT_FALSE(Forward(write_to_same_, after_first_).has_value());
  std::vector<uint64_t> first;
  for (const uint64_t count : stores) {
    if (first.empty() || count / 1000 != first.back() / 1000) first.push_back(count);
  }
  EXPECT_EQ(host_.compared, first);
}

TEST_F(ThreadTimelineTest, KnowsWhenALineWasWrittenLast) {
  const uint64_t here = begin() + 1500;
  ASSERT_TRUE(thread_.replay().GoTo(here, /*dense=*/false, nullptr).ok());
  uint64_t changed = here;
  while (Toy().at(changed - 1).sum == Toy().at(changed).sum) --changed;
  LastWrites writes;
  auto known = thread_.LastKnown(ToyRecording::kData, /*bytes=*/PageBits().set(), /*since=*/0,
                                 &writes, nullptr);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_FALSE((*known)[0].imported);
  EXPECT_GE((*known)[0].count, changed);
  EXPECT_LE((*known)[0].count, here);
}

TEST_F(ThreadTimelineTest, FindsTheStoresThatFirstMadeALineWhatItIsLater) {
  const uint64_t from = begin() + 300, seen = begin() + 1100, here = begin() + 1500;
  ASSERT_TRUE(thread_.replay().GoTo(here, /*dense=*/false, nullptr).ok());
  StoredLine line = {.address = ToyRecording::kSum};
  const uint64_t sum = Toy().at(seen).sum;
  std::memcpy(line.bytes.data(), &sum, sizeof(sum));
  ASSERT_TRUE(thread_.FindStores(from, /*goes_on=*/false, absl::MakeSpan(&line, 1), nullptr).ok());
  const auto byte_at = [](uint64_t count, size_t byte) {
    return static_cast<uint8_t>(Toy().at(count).sum >> 8 * byte);
  };
  int found = 0;
  for (size_t byte = 0; byte < sizeof(sum); ++byte) {
    uint64_t first = from;
    while (byte_at(first, byte) != line.bytes[byte]) ++first;
    EXPECT_EQ(line.stored[byte], first == from ? 0 : first) << byte;
    found += first != from;
  }
  EXPECT_GT(found, 0);
}

TEST_F(ThreadTimelineTest, WhatWasFoundOfOtherStatesChangesNoAnswer) {
  std::mt19937 random(3);
  LastWrites writes;
  uint64_t here = begin() + 1500;
  for (int i = 0; i < 300; ++i) {
    // Mostly near the state before, on either side of it.
    here = random() % 4 == 0 ? begin() + random() % (end() - begin())
                             : std::clamp(here + random() % 60 - 20, begin(), end() - 1);
    const uint64_t since = random() % 2 == 0 ? 0 : here - std::min(here, random() % uint64_t{900});
    PageBits bytes;
    for (size_t k = 0; k < 0x140; ++k) bytes[k] = random() % 3 != 0;
    LastWrites none;
    std::vector<PageKnowledge> known;
    for (LastWrites* found : {&writes, &none}) {
      ASSERT_TRUE(thread_.replay().GoTo(here, /*dense=*/false, nullptr).ok());
      auto answer = thread_.LastKnown(ToyRecording::kData, bytes, since, found, nullptr);
      ASSERT_TRUE(answer.ok()) << answer.status();
      known.push_back(*std::move(answer));
    }
    for (size_t k = 0; k < bytes.size(); ++k) {
      if (!bytes[k]) continue;
      const ByteKnowledge &mine = known[0][k], &expected = known[1][k];
      if (mine.count <= since && expected.count <= since) continue;
      ASSERT_EQ(mine.count, expected.count) << "byte " << k << " at " << here << " since " << since;
      ASSERT_EQ(mine.imported, expected.imported);
    }
  }
}

}  // namespace
}  // namespace hindsight
