#include "keyframes/memory/memory_view.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

class MemoryViewTest : public testing::Test, private ThreadViews {
 protected:
  explicit MemoryViewTest(const ToyOptions& options = {})
      : toy_(options),
        process_(*ProcessState::Create(toy_.trace())),
        view_(toy_.trace(), &process_, this, 1 << 20),
        replay_(*SegmentReplay::Create(toy_.trace())) {}

  void Go(uint64_t number, uint64_t offset) {
    auto segment = toy_.trace()->LoadSegment(ToyRecording::kThread, number);
    ASSERT_TRUE(segment.ok() && replay_->Load(*segment).ok());
    ASSERT_TRUE(replay_->AdvanceTo((*segment)->info().first_count + offset).ok());
  }
  absl::StatusOr<size_t> ReadBytes(uint64_t address, absl::Span<uint8_t> out) {
    return view_.Read(ToyRecording::kThread, replay_->count() - toy_.begin_count(), address, out,
                      nullptr);
  }
  absl::StatusOr<uint64_t> Read(uint64_t address) {
    uint64_t value = 0;
    const auto out = absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), 8);
    const auto size = ReadBytes(address, out);
    const uint64_t read = std::exchange(value, 0);
    const auto few = view_.ReadFew(ToyRecording::kThread, replay_->count() - toy_.begin_count(),
                                   address, out, nullptr);
    EXPECT_EQ(few.status(), size.status());
    if (!size.ok()) return size.status();
    EXPECT_EQ(*few, *size);
    EXPECT_EQ(value, read);
    return read;
  }

  ToyRecording toy_;
  ProcessState process_;
  MemoryView view_;
  std::unique_ptr<SegmentReplay> replay_;

 private:
  absl::StatusOr<const SegmentReplay*> ReplayAt(int32_t, uint64_t,
                                                const std::atomic<bool>*) override {
    return replay_.get();
  }
  absl::StatusOr<std::vector<Learned>> LastKnown(int32_t, std::optional<uint64_t>, uint64_t,
                                                 uint64_t, const PageBits&, uint64_t,
                                                 const std::atomic<bool>*) override {
    return absl::InternalError("only one thread knows anything here");
  }
  absl::StatusOr<std::shared_ptr<const Segment>> SegmentAt(int32_t, uint64_t) override {
    return absl::NotFoundError("nobody has seen anything");
  }
  absl::Status FindStores(int32_t, uint64_t, uint64_t, absl::Span<StoredLine>,
                          const std::atomic<bool>*) override {
    return absl::InternalError("nothing is replayed");
  }
  absl::Status ReadBirth(uint64_t, absl::Span<uint8_t>) override {
    return absl::NotFoundError("born with nothing");
  }
  absl::StatusOr<bool> WasUntouchedAtBirth(uint64_t) override { return false; }
};

TEST_F(MemoryViewTest, APageHeldIsReadFromTheView) {
  Go(1, 500);
  EXPECT_EQ(*Read(ToyRecording::kSum), toy_.at(replay_->count()).sum);
}

TEST_F(MemoryViewTest, APageNotTouchedYetShowsTheEndOfTheSegmentBefore) {
  Go(2, 0);  // only the code page may have come in
  EXPECT_EQ(*Read(ToyRecording::kSum), toy_.at(replay_->count()).sum);
  EXPECT_EQ(*Read(ToyRecording::kRare), toy_.at(replay_->count()).rare);
}

TEST_F(MemoryViewTest, WhatNothingKnowsIsNotFound) {
  Go(0, 0);
  EXPECT_TRUE(absl::IsNotFound(Read(ToyRecording::kBuffer).status()));
  EXPECT_TRUE(absl::IsNotFound(Read(0).status()));
  EXPECT_TRUE(absl::IsNotFound(Read(~uint64_t{0} - 16).status()));
}

TEST_F(MemoryViewTest, ReadsAcrossPagesStopAtTheFirstUnknown) {
  Go(0, 100);
  std::array<uint8_t, 64> bytes;
  auto size = ReadBytes(ToyRecording::kStackTop - 10, absl::MakeSpan(bytes));
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, 10);
}

TEST_F(MemoryViewTest, RememberedPagesNeedNoReplay) {
  Go(2, 0);
  std::array<uint8_t, kPageBytes> page;
  page.fill(0x5a);
  view_.Remember(ToyRecording::kThread, 1, ToyRecording::kBuffer, page);
  EXPECT_EQ(*Read(ToyRecording::kBuffer), 0x5a5a5a5a5a5a5a5a);
}

class MemoryViewWithKeyframesTest : public MemoryViewTest {
 protected:
  MemoryViewWithKeyframesTest() : MemoryViewTest({.full_keyframes = true}) {}
};

TEST_F(MemoryViewWithKeyframesTest, AFullKeyframeAnswersForPagesNobodyTouched) {
  Go(0, 0);
  EXPECT_EQ(*Read(ToyRecording::kBuffer), 0);
  Go(3, 0);  // keyframe 2: what the toy kernel wrote is in it
  EXPECT_EQ(*Read(ToyRecording::kBuffer), toy_.at(replay_->count()).buffer);
  EXPECT_NE(*Read(ToyRecording::kBuffer), 0);
}

TEST_F(MemoryViewWithKeyframesTest, WhatAThreadOrAKeyframeHasWasTouched) {
  const auto untouched = [&](uint64_t address) {
    return *view_.IsUntouched(ToyRecording::kThread, replay_->count() - toy_.begin_count(),
                              address + 5, nullptr);
  };
  Go(3, 0);
  EXPECT_FALSE(untouched(ToyRecording::kBuffer));    // it is in the keyframe
  EXPECT_FALSE(untouched(ToyRecording::kSum));       // it is in the view
  EXPECT_FALSE(untouched(ToyRecording::kStackTop));  // it is not mapped
}

TEST_F(MemoryViewWithKeyframesTest, WhatIsNotMappedCannotBeRead) {
  Go(3, 0);
  EXPECT_TRUE(absl::IsNotFound(Read(ToyRecording::kStackTop).status()));
}

}  // namespace
}  // namespace hindsight
