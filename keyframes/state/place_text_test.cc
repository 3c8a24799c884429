#include "keyframes/state/place_text.h"

#include <string>

#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {
namespace {

class PlaceTextTest : public ::testing::Test {
 protected:
  PlaceTextTest()
      : toy_({.iterations = 40, .full_keyframes = true}),
        process_(*ProcessState::Create(toy_.trace())) {}

  // The moment of `text`; ~0 if it is refused.
  uint64_t Moment(const std::string& text) {
    const auto place = ParsePlace(text, process_, places_);
    return place.ok() ? place->moment : ~uint64_t{0};
  }
  absl::StatusCode Code(const std::string& text) {
    return ParsePlace(text, process_, places_).status().code();
  }

  ToyRecording toy_;
  ProcessState process_;
  Places places_;
};

TEST_F(PlaceTextTest, EndsAndPercentages) {
  EXPECT_EQ(Moment("start"), 0);
  EXPECT_EQ(Moment(" end "), process_.end_moment());
  EXPECT_EQ(Moment("0%"), 0);
  EXPECT_EQ(Moment("50%"), process_.MomentAtPercent(50));
  EXPECT_EQ(Moment("100%"), process_.end_moment());
}

TEST_F(PlaceTextTest, PositionsSnapshotsAndBookmarks) {
  EXPECT_EQ(Moment("0:5"), 5);
  EXPECT_EQ(Moment("snapshot 1"), 0);
  ASSERT_TRUE(places_.SetBookmark("here", {0, 9}).ok());
  EXPECT_EQ(Moment("bookmark here"), 9);
}

TEST_F(PlaceTextTest, WhatIsNoPlaceIsRefused) {
  for (const char* text : {"", "nowhere", "101%", "-1%", "x%", "nan%", "snapshot", "snapshot 999",
                           "bookmark none", "thread", "thread 99", "thread 7 begin"}) {
    EXPECT_EQ(Code(text), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(Code("FFFFFFFF:0"), absl::StatusCode::kOutOfRange);
}

TEST(PlaceTextThreadsTest, APlaceOfAThreadSelectsIt) {
  const ToyThreads toy;
  const auto process = *ProcessState::Create(toy.trace());
  const auto place = ParsePlace("thread 31", process, {});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(*place, (Place{process.threads().StartOf(ToyThreads::kSecond), ToyThreads::kSecond}));
  const auto end = ParsePlace("thread 31 end", process, {});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->moment, process.threads().EndOf(ToyThreads::kSecond));
  EXPECT_EQ(*ParseThread("12", process), ToyThreads::kThird);
}

}  // namespace
}  // namespace hindsight
