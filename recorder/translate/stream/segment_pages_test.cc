#include "recorder/translate/stream/segment_pages.h"

#include <vector>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x7000;

class SegmentPagesTest : public testing::Test {
 protected:
  SegmentPagesTest() {
    log_.BeginSegment(0, {});
    pages_.Begin(/*time=*/100, code_);
  }

  static std::vector<uint8_t> Filled(uint8_t byte) {
    return std::vector<uint8_t>(kPageBytes, byte);
  }
  void AddNewCode() {
    if (pages_.HasNewCode()) pages_.AddNewCode(1);
    EXPECT_FALSE(pages_.HasNewCode());
  }
  size_t imports() const { return writer_.records.size(); }
  const PageImport& last() const { return std::get<PageImport>(writer_.records.back().body); }

  FakeTraceWriter writer_;
  Sequence sequence_;
  ThreadLog log_{&writer_, 7, &sequence_};
  AddressSpace space_;
  ModuleTable modules_{&writer_, "", 1};
  std::shared_ptr<ExecutedPages> code_ = std::make_shared<ExecutedPages>();
  SegmentPages pages_{&space_, &modules_, &log_};
};

TEST_F(SegmentPagesTest, TheLinesThatAreNotZeroAreImported) {
  std::vector<uint8_t> bytes = Filled(0);
  bytes[64] = 1;
  pages_.Add(1, kPage, bytes.data());
  EXPECT_TRUE(last().first);
  EXPECT_EQ(last().line_mask, 2u);
}

TEST_F(SegmentPagesTest, WhatTheViewHoldsIsNotImportedAgain) {
  code_->Publish(kPage, Filled(1), true);
  AddNewCode();
  ASSERT_EQ(imports(), 1u);
  pages_.Add(1, kPage, Filled(1).data());
  EXPECT_EQ(imports(), 1u);
  pages_.Add(1, kPage, Filled(2).data());
  ASSERT_EQ(imports(), 2u);
  EXPECT_FALSE(last().first);
  EXPECT_EQ(last().line_mask, ~uint64_t{0});
}

TEST_F(SegmentPagesTest, ASegmentBeginsWithAllCode) {
  code_->Publish(kPage, Filled(1), true);
  code_->Publish(kPage + kPageBytes, Filled(1), true);
  AddNewCode();
  pages_.Begin(/*time=*/200, code_);
  AddNewCode();
  EXPECT_EQ(imports(), 4u);
  EXPECT_TRUE(last().first);
}

TEST_F(SegmentPagesTest, CodeThatHasChangedIsImportedAsItIsNow) {
  code_->Publish(kPage, Filled(1), true);
  AddNewCode();
  code_->Publish(kPage, Filled(1), true);
  EXPECT_FALSE(pages_.HasNewCode());
  code_->Publish(kPage, Filled(2), true);
  AddNewCode();
  ASSERT_EQ(imports(), 2u);
  EXPECT_EQ(last().lines[0], 2);
  pages_.Begin(/*time=*/200, code_);
  AddNewCode();
  EXPECT_EQ(imports(), 3u);
}

TEST_F(SegmentPagesTest, WhatWasGoneBeforeASegmentIsNotInIt) {
  code_->Publish(kPage, Filled(1), true);
  code_->Withdraw(kPage, kPage + 1, /*time=*/150);
  AddNewCode();
  EXPECT_EQ(imports(), 1u);  // it may have been executed before
  pages_.Begin(/*time=*/140, code_);
  AddNewCode();
  EXPECT_EQ(imports(), 2u);
  pages_.Begin(/*time=*/160, code_);
  AddNewCode();
  EXPECT_EQ(imports(), 2u);
}

TEST_F(SegmentPagesTest, WhatIsOnlyFetchedGivesWayToWhatTheThreadHasRead) {
  pages_.Add(1, kPage, Filled(3).data());
  code_->Publish(kPage, Filled(1), /*executed=*/false);
  AddNewCode();
  EXPECT_EQ(imports(), 1u);
  code_->Publish(kPage, Filled(1), /*executed=*/true);
  AddNewCode();
  EXPECT_EQ(imports(), 2u);
}

}  // namespace
}  // namespace hindsight
