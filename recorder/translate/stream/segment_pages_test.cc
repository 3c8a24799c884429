#include "recorder/translate/stream/segment_pages.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <string>
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

// Each segment begins with it, and neither what is stored of the module nor what was executed
// changes. Elsewhere in the module it is compared again.
TEST_F(SegmentPagesTest, CodeIsComparedWithAPlaceInItsModuleOnce) {
  const std::string path = testing::TempDir() + "/segment_pages_test.module";
  std::ofstream(path) << std::string(kPageBytes, 'c') << std::string(kPageBytes, 'd');
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  MapRegion region = {.start = kPage, .end = kPage + kPageBytes, .name = path};
  region.device_major = major(status.st_dev);
  region.device_minor = minor(status.st_dev);
  region.inode = status.st_ino;
  ModuleTable modules(&writer_, "", 1 << 20);
  ASSERT_TRUE(modules.Register({&region, 1}).ok());
  ASSERT_EQ(region.module, 0);
  space_.Replace({region.start, region.end, {region}});
  code_->Publish(kPage, Filled('c'), true);
  SegmentPages pages(&space_, &modules, &log_);
  const auto module_in_next_segment = [&] {
    pages.Begin(/*time=*/100, code_);
    pages.AddNewCode(1);
    return last().module;
  };
  EXPECT_EQ(module_in_next_segment(), 0);
  EXPECT_EQ(last().module_offset, 0u);
  std::ofstream(path) << "changed";
  EXPECT_EQ(module_in_next_segment(), 0);
  pages.Begin(/*time=*/100, nullptr);
  pages.Add(1, kPage, Filled('c').data());
  EXPECT_EQ(last().module, 0) << "what is stored is compared with, not what the file has by now";
  pages.Begin(/*time=*/100, nullptr);
  pages.Add(1, kPage, Filled('e').data());
  EXPECT_EQ(last().module, -1);
  region.file_offset = kPageBytes;
  space_.Replace({region.start, region.end, {region}});
  EXPECT_EQ(module_in_next_segment(), -1);
}

// Of several processes; what was found out of a page is known to all of them.
TEST_F(SegmentPagesTest, TheSameCodeIsKeptOnce) {
  const auto pool = std::make_shared<ExecutedPagePool>();
  ExecutedPages one(pool), another(pool), alone;
  for (ExecutedPages* const pages : {&one, &another, &alone}) {
    pages->Publish(kPage, Filled(1), true);
  }
  EXPECT_EQ(one.Find(kPage), another.Find(kPage));
  EXPECT_NE(one.Find(kPage), alone.Find(kPage));
  another.Publish(kPage, Filled(2), true);
  EXPECT_NE(one.Find(kPage), another.Find(kPage));
  one.Publish(kPage + kPageBytes, Filled(1), true);
  another.Publish(kPage + kPageBytes, Filled(1), false);
  EXPECT_FALSE(another.Find(kPage + kPageBytes)->executed);
}

TEST_F(SegmentPagesTest, AChildBeginsWithItsMakersCodeButForWhatIsNotThere) {
  code_->Publish(kPage, Filled(1), true);
  code_->Publish(kPage, Filled(2), true);
  code_->Publish(kPage + kPageBytes, Filled(3), true);
  code_->Withdraw(kPage + kPageBytes, kPage + 2 * kPageBytes, /*time=*/100);
  code_->Publish(kPage + 2 * kPageBytes, Filled(4), true);
  code_->Publish(kPage + 3 * kPageBytes, Filled(5), false);
  ExecutedPages child;
  child.Inherit(*code_, [](uint64_t address) { return address == kPage + 2 * kPageBytes; });
  EXPECT_EQ(child.size(), 2u);
  EXPECT_EQ(child.Find(kPage), code_->Find(kPage));
  EXPECT_EQ(child.Find(kPage + kPageBytes), nullptr);
  EXPECT_EQ(child.Find(kPage + 2 * kPageBytes), nullptr);
  EXPECT_EQ(child.Find(kPage + 3 * kPageBytes), code_->Find(kPage + 3 * kPageBytes));
  child.Publish(kPage, Filled(2), true);
  EXPECT_EQ(child.size(), 2u) << "is there";
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

// A program that compiles again and again; nobody asks for it meanwhile.
TEST_F(SegmentPagesTest, OfCodeThatChangesOnlyTheLastIsKept) {
  for (int i = 1; i <= 100'000; ++i) {
    code_->Publish(kPage, Filled(static_cast<uint8_t>(i % 200 + 1)), true);
    code_->Publish(kPage + kPageBytes, Filled(static_cast<uint8_t>(i % 100 + 1)), false);
    if (i % 3 == 0) code_->Withdraw(kPage, kPage + kPageBytes, /*time=*/static_cast<uint64_t>(i));
  }
  EXPECT_EQ(code_->kept(), 2u);
  AddNewCode();
  ASSERT_EQ(imports(), 2u);
  const auto& first = std::get<PageImport>(writer_.records[0].body);
  EXPECT_EQ(first.address == kPage ? first.lines[0] : last().lines[0], 100'000 % 200 + 1);
}

// The view of who has executed it keeps it.
TEST_F(SegmentPagesTest, WhatIsOnlyFetchedDoesNotTakeThePlaceOfWhatWasExecuted) {
  code_->Publish(kPage, Filled(1), /*executed=*/true);
  code_->Withdraw(kPage, kPage + 1, /*time=*/150);
  code_->Publish(kPage, Filled(2), /*executed=*/false);
  EXPECT_EQ(code_->kept(), 2u);
  AddNewCode();
  ASSERT_EQ(imports(), 1u);
  EXPECT_EQ(last().lines[0], 1);
  code_->Publish(kPage, Filled(3), /*executed=*/true);
  EXPECT_EQ(code_->kept(), 1u);
  AddNewCode();
  EXPECT_EQ(last().lines[0], 3);
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

class DirectSegmentPagesTest : public SegmentPagesTest {
 protected:
  static MapRegion Region(uint64_t start, const std::string& name, uint64_t inode = 0) {
    MapRegion region = {.start = start, .end = start + 4 * kPageBytes, .name = name};
    region.inode = inode;
    region.protection = PROT_READ;
    return region;
  }
  std::vector<MappedRange> ranges() const {
    std::vector<MappedRange> ranges;
    for (const Record& record : writer_.records) {
      const auto* range = std::get_if<MappedRange>(&record.body);
      if (range != nullptr) ranges.push_back(*range);
    }
    return ranges;
  }
};

TEST_F(DirectSegmentPagesTest, WhatIsMappedIsToldAsFarAsItIsKnown) {
  const MapRegion zeros = Region(kPage, ""), heap = Region(0x20000, "[heap]"),
                  unknown = Region(0x30000, "/no/such/file", 5), vdso = Region(0x40000, "[vdso]");
  space_.Replace({0, 0x100000, {zeros, heap, unknown, vdso}});
  pages_.AddMapped(1, 0, ~uint64_t{0xfff}, /*begins=*/true);
  ASSERT_EQ(ranges().size(), 2u);
  EXPECT_EQ(ranges()[0].address, kPage);
  EXPECT_EQ(ranges()[0].bytes, 4 * kPageBytes);
  EXPECT_EQ(ranges()[0].module, -1);
  EXPECT_EQ(ranges()[1].address, 0x20000u);
}

// In the place of what was there while nobody looked.
TEST_F(DirectSegmentPagesTest, CodeIsImportedOnceMemoryIsShared) {
  space_.Replace({0, 0x100000, {Region(kPage, "")}});
  pages_.Add(1, kPage, Filled(1).data());
  pages_.AddMapped(1, 0, ~uint64_t{0xfff}, /*begins=*/true);
  const size_t before = imports();
  code_->Publish(kPage, Filled(2), /*executed=*/true);
  AddNewCode();
  EXPECT_EQ(imports(), before);  // that is what the thread has stored
  pages_.Share();
  code_->Publish(kPage, Filled(3), /*executed=*/true);
  AddNewCode();
  ASSERT_EQ(imports(), before + 1);
  EXPECT_EQ(last().lines[0], 3);
  pages_.Add(1, kPage, Filled(3).data());
  EXPECT_EQ(imports(), before + 1);
}

// The thread cannot say what it has stored there before.
TEST_F(DirectSegmentPagesTest, WhatCannotBeReadIsNotTold) {
  MapRegion hidden = Region(kPage, "");
  hidden.protection = PROT_NONE;
  space_.Replace({0, 0x100000, {hidden}});
  pages_.AddMapped(1, 0, ~uint64_t{0xfff}, /*begins=*/true);
  EXPECT_TRUE(ranges().empty());
}

TEST_F(DirectSegmentPagesTest, OnlyThePartThatIsAskedForIsTold) {
  space_.Replace({0, 0x100000, {Region(kPage, "")}});
  pages_.AddMapped(1, kPage + kPageBytes, kPage + 2 * kPageBytes, /*begins=*/false);
  ASSERT_EQ(ranges().size(), 1u);
  EXPECT_EQ(ranges()[0].address, kPage + kPageBytes);
  EXPECT_EQ(ranges()[0].bytes, kPageBytes);
}

// The thread may have stored to it in between.
TEST_F(DirectSegmentPagesTest, APageThatIsToldAgainIsImportedAgain) {
  space_.Replace({0, 0x100000, {Region(kPage, "")}});
  pages_.AddMapped(1, 0, ~uint64_t{0xfff}, /*begins=*/true);
  pages_.Add(1, kPage, Filled(1).data());
  pages_.Add(2, kPage, Filled(1).data());
  EXPECT_EQ(writer_.Imports().size(), 2u);
}

TEST_F(DirectSegmentPagesTest, CodeThatTheProcessHasWrittenIsNotImported) {
  space_.Replace({0, 0x100000, {Region(kPage, "")}});
  pages_.AddMapped(1, 0, ~uint64_t{0xfff}, /*begins=*/true);
  code_->Publish(kPage, Filled(1), true);
  AddNewCode();
  EXPECT_TRUE(writer_.Imports().empty());
}

}  // namespace
}  // namespace hindsight
