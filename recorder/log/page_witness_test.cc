#include "recorder/log/page_witness.h"

#include <algorithm>
#include <array>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x1000;
constexpr uint64_t kAll = ~uint64_t{0};
using Bytes = std::array<uint8_t, kPageBytes>;

class PageWitnessTest : public testing::Test {
 protected:
  PageWitnessTest() {
    first_.fill(1);
    second_.fill(1);
    witnesses_.Enable();
  }

  Bytes first_, second_;  // views of two threads
  const int a_ = 0, b_ = 0;
  const void* const one_ = &a_;
  const void* const other_ = &b_;
  PageWitnesses witnesses_;
};

TEST_F(PageWitnessTest, NothingIsKnownOfAPageWithoutAWitness) {
  EXPECT_EQ(witnesses_.KnownLines(kPage, one_, first_.data()), 0);
  witnesses_.SetNewest(2 * kPage, other_, second_.data());
  EXPECT_EQ(witnesses_.KnownLines(kPage, one_, first_.data()), 0);
}

TEST_F(PageWitnessTest, LinesAsAnotherThreadKnewThemAreKnownTheOthersAreNot) {
  witnesses_.SetNewest(kPage, one_, first_.data());
  Bytes found = first_;
  found[3 * kLineBytes + 7] = 9;  // neither of them wrote that
  EXPECT_EQ(witnesses_.KnownLines(kPage, other_, found.data()), kAll & ~(uint64_t{1} << 3));
}

TEST_F(PageWitnessTest, WhatOneKnewItselfIsNoNewsOfOthers) {
  witnesses_.SetNewest(kPage, one_, first_.data());
  EXPECT_EQ(witnesses_.KnownLines(kPage, one_, first_.data()), 0);
}

TEST_F(PageWitnessTest, TheLastWitnessCounts) {
  witnesses_.SetNewest(kPage, one_, first_.data());
  second_[0] = 2;
  witnesses_.SetNewest(kPage, other_, second_.data());
  EXPECT_EQ(witnesses_.KnownLines(kPage, one_, second_.data()), kAll);
  EXPECT_EQ(witnesses_.KnownLines(kPage, one_, first_.data()), kAll & ~uint64_t{1});
  EXPECT_EQ(witnesses_.KnownLines(kPage, other_, second_.data()), 0);
}

TEST_F(PageWitnessTest, AWitnessIsAskedForItsPresentBytes) {
  witnesses_.SetNewest(kPage, one_, first_.data());
  first_[kLineBytes] = 5;  // a store since
  Bytes found = first_;
  EXPECT_EQ(witnesses_.KnownLines(kPage, other_, found.data()), kAll);
}

TEST_F(PageWitnessTest, WhatAThreadThatEndedHasWrittenStaysKnown) {
  witnesses_.SetNewest(kPage, one_, first_.data());
  witnesses_.SetNewest(2 * kPage, one_, second_.data());
  const Bytes found = first_;
  witnesses_.Forget(kPage, one_, /*keep=*/true);
  witnesses_.Forget(2 * kPage, one_, /*keep=*/false);
  first_.fill(0xee);  // its view is gone
  second_.fill(0xee);
  EXPECT_EQ(witnesses_.KnownLines(kPage, other_, found.data()), kAll);
  EXPECT_EQ(witnesses_.KnownLines(2 * kPage, other_, found.data()), 0);
}

TEST_F(PageWitnessTest, OnlyTheWitnessItselfForgets) {
  witnesses_.SetNewest(kPage, one_, first_.data());
  witnesses_.Forget(kPage, other_, /*keep=*/false);
  EXPECT_EQ(witnesses_.KnownLines(kPage, other_, first_.data()), kAll);
}

TEST_F(PageWitnessTest, ANewAddressSpaceHasNoWitnesses) {
  witnesses_.SetNewest(kPage, one_, first_.data());
  witnesses_.Clear();
  EXPECT_EQ(witnesses_.KnownLines(kPage, other_, first_.data()), 0);
}

TEST_F(PageWitnessTest, NewsIsWhatOthersHaveTestifiedSince) {
  const uint64_t before = witnesses_.time();
  witnesses_.SetNewest(kPage, one_, first_.data());
  EXPECT_TRUE(witnesses_.HasNewerWitness(kPage, other_, before));
  EXPECT_FALSE(witnesses_.HasNewerWitness(kPage, one_, before));
  EXPECT_FALSE(witnesses_.HasNewerWitness(kPage, other_, witnesses_.time()));
  EXPECT_FALSE(witnesses_.HasNewerWitness(2 * kPage, other_, before));
}

TEST(PageWitnessesTest, AProcessOfOneThreadHasNone) {
  PageWitnesses witnesses;
  Bytes bytes = {};
  const int one = 0, other = 0;
  witnesses.SetNewest(kPage, &one, bytes.data());
  EXPECT_FALSE(witnesses.enabled());
  EXPECT_EQ(witnesses.KnownLines(kPage, &other, bytes.data()), 0);
}

}  // namespace
}  // namespace hindsight
