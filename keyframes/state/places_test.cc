#include "keyframes/state/places.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

TEST(PlacesTest, BookmarksAreSetReplacedAndRemoved) {
  Places places;
  EXPECT_EQ(places.bookmark("a"), nullptr);
  EXPECT_TRUE(places.SetBookmark("a", {1, 2}).ok());
  EXPECT_TRUE(places.SetBookmark("a", {3, 4}).ok());
  EXPECT_EQ(*places.bookmark("a"), (Position{3, 4}));
  EXPECT_TRUE(places.RemoveBookmark("a"));
  EXPECT_FALSE(places.RemoveBookmark("a"));
}

TEST(PlacesTest, NamesAreChecked) {
  Places places;
  for (const char* name : {"x", "before-crash_2.b", "7"}) {
    EXPECT_TRUE(places.SetBookmark(name, {}).ok()) << name;
  }
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\n"),
                                  std::string("../x/"), std::string(65, 'a')}) {
    EXPECT_EQ(places.SetBookmark(name, {}).code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(PlacesTest, BackAndForwardThroughPlacesVisited) {
  Places places;
  EXPECT_EQ(places.Back(), std::nullopt);
  EXPECT_EQ(places.Forward(), std::nullopt);
  for (const uint64_t moment : {1, 2, 2, 3}) places.Visit({moment, 7});
  EXPECT_EQ(places.Back(), (Place{2, 7}));
  EXPECT_EQ(places.Back(), (Place{1, 7}));
  EXPECT_EQ(places.Back(), std::nullopt);
  EXPECT_EQ(places.Forward(), (Place{2, 7}));
  places.Visit({9, 7});
  EXPECT_EQ(places.Forward(), std::nullopt);
  EXPECT_EQ(places.Back(), (Place{2, 7}));
  EXPECT_EQ(places.Back(), (Place{1, 7}));
}

TEST(PlacesTest, TheOldestAreForgotten) {
  Places places;
  for (uint64_t moment = 0; moment < 5000; ++moment) places.Visit({moment, 1});
  int count = 0;
  while (places.Back().has_value()) ++count;
  EXPECT_EQ(count, 999);
}

}  // namespace
}  // namespace hindsight
