// What a segment begins with unchanged is not stored again.

#include "tracefmt/references/reference_choice.h"

#include <gtest/gtest.h>

#include <vector>

#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

constexpr uint64_t kWhole = ~uint64_t{0};

PageImport FirstImport(uint64_t address, uint8_t fill, uint64_t mask = kWhole) {
  return std::get<PageImport>(Page(0, address, mask, fill).body);
}

class ReferenceChoiceTest : public testing::Test {
 protected:
  // Segment `number` with `pages` pages, of which those from `changed` on are as no segment before
  // had them. How many of them refer.
  int Segment(uint64_t number, int pages, int changed) {
    reference_ = choice_.BeginSegment(number);
    int referring = 0;
    for (int i = 0; i < pages; ++i) {
      const auto fill = static_cast<uint8_t>(i < changed ? 1 : number + 2);
      referring += choice_.Refers(FirstImport(static_cast<uint64_t>(i) * kPageBytes, fill)) ? 1 : 0;
    }
    return referring;
  }

  ReferenceChoice choice_;
  std::optional<uint64_t> reference_;
};

TEST_F(ReferenceChoiceTest, WhatIsAsInTheReferenceRefersToIt) {
  EXPECT_EQ(Segment(0, 10, 10), 0);
  EXPECT_EQ(reference_, std::nullopt);
  EXPECT_EQ(Segment(1, 10, 8), 8);
  EXPECT_EQ(reference_, 0);
  EXPECT_EQ(Segment(2, 12, 10), 10);
  EXPECT_EQ(reference_, 0);
}

TEST_F(ReferenceChoiceTest, AfterOneThatStoresMoreThanItRefersToAnotherIsTheReference) {
  Segment(0, 10, 10);
  EXPECT_EQ(Segment(1, 10, 4), 4);
  EXPECT_EQ(Segment(2, 10, 4), 0);
  EXPECT_EQ(reference_, std::nullopt);
  EXPECT_EQ(Segment(3, 10, 4), 4);
  EXPECT_EQ(reference_, 2);
}

TEST_F(ReferenceChoiceTest, OnceTheyHaveStoredAsMuchAsAReferenceTakesAnotherIs) {
  Segment(0, 10, 10);
  // Two pages change all the time; one more each time is not as it was.
  for (uint64_t number = 1; number < 6; ++number) {
    EXPECT_EQ(Segment(number, 10, 9 - static_cast<int>(number)), 9 - static_cast<int>(number));
    EXPECT_EQ(reference_, 0) << number;
  }
  EXPECT_EQ(Segment(6, 10, 4), 0);
  EXPECT_EQ(reference_, std::nullopt);
}

TEST_F(ReferenceChoiceTest, WhatAlwaysChangesNeedsNoOther) {
  Segment(0, 10, 10);
  for (uint64_t number = 1; number <= 64; ++number) EXPECT_EQ(Segment(number, 10, 6), 6);
  EXPECT_EQ(reference_, 0);
  // But not for ever: what is lost with it is bounded.
  EXPECT_EQ(Segment(65, 10, 6), 0);
  EXPECT_EQ(reference_, std::nullopt);
}

TEST_F(ReferenceChoiceTest, OnlyContentsThatAreStoredRefer) {
  PageImport of_module = FirstImport(0x1000, 7), later = FirstImport(0x2000, 7);
  of_module.module = 0;
  later.first = false;
  PageImport known = FirstImport(0x3000, 7);
  known.known_mask = 1;
  const PageImport zeros = FirstImport(0x4000, 0, 0), plain = FirstImport(0x5000, 7);
  for (const uint64_t number : {0, 1}) {
    choice_.BeginSegment(number);
    for (const PageImport& page : {of_module, later, known, zeros}) {
      EXPECT_FALSE(choice_.Refers(page)) << page.address;
    }
    EXPECT_EQ(choice_.Refers(plain), number == 1);
  }
}

TEST_F(ReferenceChoiceTest, TheSameLinesAtAnotherPlaceInThePageAreNotTheSame) {
  choice_.BeginSegment(0);
  choice_.Refers(FirstImport(0x1000, 7, 0b01));
  choice_.BeginSegment(1);
  EXPECT_FALSE(choice_.Refers(FirstImport(0x1000, 7, 0b10)));
  EXPECT_FALSE(choice_.Refers(FirstImport(0x2000, 7, 0b01)));
  EXPECT_TRUE(choice_.Refers(FirstImport(0x1000, 7, 0b01)));
}

TEST_F(ReferenceChoiceTest, WhatThePageHadFirstCounts) {
  choice_.BeginSegment(0);
  choice_.Refers(FirstImport(0x1000, 7));
  choice_.Refers(FirstImport(0x1000, 8));
  choice_.BeginSegment(1);
  EXPECT_FALSE(choice_.Refers(FirstImport(0x1000, 8)));
  EXPECT_TRUE(choice_.Refers(FirstImport(0x1000, 7)));
}

TEST_F(ReferenceChoiceTest, AlsoIfThatCannotBeReferredTo) {
  PageImport known = FirstImport(0x2000, 7);
  known.known_mask = 1;
  choice_.BeginSegment(0);
  choice_.Refers(FirstImport(0x1000, 0, 0));
  choice_.Refers(FirstImport(0x1000, 7));
  choice_.Refers(known);
  choice_.Refers(FirstImport(0x2000, 7));
  choice_.BeginSegment(1);
  EXPECT_FALSE(choice_.Refers(FirstImport(0x1000, 7)));
  EXPECT_FALSE(choice_.Refers(FirstImport(0x2000, 7)));
}

}  // namespace
}  // namespace hindsight
