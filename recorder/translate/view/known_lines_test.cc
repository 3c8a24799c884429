#include "recorder/translate/view/known_lines.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = ThreadView::kPage;
constexpr uint64_t kOwn = 1, kOther = 2, kLast = 3;
constexpr uint64_t kLine = 5;

// The threads' views of one page, by their numbers; 0: memory itself.
uint8_t* pages[kLast + 1];
// The other thread is about to show 7 there, when it has been looked at so often (0: never).
bool changing;
int shows_after;

uint64_t Distance(uint64_t number) {
  return reinterpret_cast<uint64_t>(pages[number]) - reinterpret_cast<uint64_t>(pages[0]);
}
bool Holds(uint64_t number, uint64_t /*index*/) { return number != kLast; }
bool IsChanging(uint64_t number) {
  if (number != kOther || !changing) return false;
  if (--shows_after == 0) pages[kOther][kLine * 64 + 3] = 7;
  return true;
}
bool Copy(void* to, const void* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
  return true;
}

class KnownLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    constexpr int kRights = PROT_READ | PROT_WRITE;
    for (uint8_t*& page : pages) {
      page =
          static_cast<uint8_t*>(mmap(nullptr, kPage, kRights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    }
    changing = false;
    shows_after = 0;
    const auto start = reinterpret_cast<uint64_t>(pages[0]);
    const ViewWindow window = {start, start + kPage};
    tables_.resize(2 * ThreadView::TableBytes(&window, 1));
    own_.Init(Distance(kOwn), &window, 1,
              {tables_.data(), tables_.data() + tables_.size() / 2, &table_page_, 1, &shared_},
              {&Copy, nullptr}, nullptr);
  }
  void TearDown() override {
    for (uint8_t* page : pages) munmap(page, kPage);
  }
  // A byte of the line, as it is there.
  static uint8_t& At(uint64_t number) { return pages[number][kLine * 64 + 3]; }
  bool IsKnown() const { return Known().lines == uint64_t{1} << kLine; }
  ThreadView::Known Known() const {
    const OtherViews others = {.first = kOwn,
                               .last = kLast,
                               .distance = &Distance,
                               .holds = &Holds,
                               .is_changing = &IsChanging,
                               .read = &Copy};
    const uint64_t line = uint64_t{1} << kLine;
    return KnownToOthers(others, own_, reinterpret_cast<uint64_t>(pages[0]), line, pages[0]);
  }

 private:
  std::vector<uint8_t> tables_;
  uint64_t table_page_ = 0;
  ViewMemory::Shared shared_ = {};
  ThreadView own_;
};

TEST_F(KnownLinesTest, WhatAnotherThreadShowsIsKnown) {
  At(0) = At(kOther) = 7;
  EXPECT_TRUE(IsKnown());
}

TEST_F(KnownLinesTest, WhoShowsAWholeLineIsTold) {
  At(0) = At(kOther) = 7;
  EXPECT_EQ(Known().shown[0].ring, uint64_t{kOther});
  EXPECT_EQ(Known().shown[0].lines, uint64_t{1} << kLine);
  EXPECT_EQ(Known().shown[1].ring, 0u);
  pages[0][kLine * 64 + 9] = pages[kOwn][kLine * 64 + 9] = 8;
  EXPECT_TRUE(IsKnown());
  EXPECT_EQ(Known().shown[0].ring, 0u) << "one has a part of it";
}

TEST_F(KnownLinesTest, WhatNobodyShowsIsNot) {
  At(0) = 7;
  EXPECT_FALSE(IsKnown());
  At(kLast) = 7;  // it does not hold the page
  EXPECT_FALSE(IsKnown());
}

TEST_F(KnownLinesTest, WhatSeveralThreadsHaveStoredInOneLineIsKnown) {
  At(0) = At(kOther) = 7;
  pages[0][kLine * 64 + 9] = 8;
  EXPECT_FALSE(IsKnown());
  pages[kOwn][kLine * 64 + 9] = 8;
  EXPECT_TRUE(IsKnown());
}

// A locked instruction changes memory first.
TEST_F(KnownLinesTest, WhoIsInTheMiddleOfAChangeIsWaitedFor) {
  At(0) = 7;
  changing = true;
  EXPECT_FALSE(IsKnown()) << "not for long";
  At(kOther) = 0;
  shows_after = 5;
  EXPECT_TRUE(IsKnown());
}

}  // namespace
}  // namespace hindsight
