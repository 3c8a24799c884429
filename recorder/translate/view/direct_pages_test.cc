#include "recorder/translate/view/direct_pages.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/translate/stream/ring_reader.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = DirectPages::kPage, kCapacity = 1 << 20;
uint64_t unreadable;  // a page

bool Read(void* to, const void* from, uint64_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(from);
  if (address < unreadable + kPage && unreadable < address + bytes) return false;
  std::memcpy(to, from, bytes);
  return true;
}

class DirectPagesTest : public testing::Test {
 protected:
  DirectPagesTest() : memory_(HS_RING_HEADER_BYTES + kCapacity), reader_(ring(), kCapacity) {
    ring()->capacity = kCapacity;
    writer_.Init(ring());
    pages_.Init(&Read, &writer_);
    unreadable = 0;
    data_ = static_cast<uint8_t*>(
        mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (uint64_t i = 0; i < 4 * kPage; ++i) data_[i] = static_cast<uint8_t>(i / 64 + i / kPage);
  }
  ~DirectPagesTest() override { munmap(data_, 4 * kPage); }

  HsRing* ring() { return reinterpret_cast<HsRing*>(memory_.data()); }
  uint64_t At(uint64_t offset) const { return reinterpret_cast<uint64_t>(data_) + offset; }
  bool IsEmpty() {
    if (read_) reader_.Done();
    read_ = false;
    return *reader_.Peek() == nullptr;
  }
  template <typename T>
  const T& Next(HsEntryKind kind) {
    if (read_) reader_.Done();
    read_ = true;
    const auto* entry = *reader_.Peek();
    EXPECT_EQ(entry->kind, kind);
    return *reinterpret_cast<const T*>(entry);
  }

  std::vector<uint8_t> memory_;
  RingReader reader_;
  EntryWriter writer_;
  DirectPages pages_;
  uint8_t* data_;
  bool read_ = false;
};

TEST_F(DirectPagesTest, WhatIsStoredIsToldByLines) {
  ASSERT_TRUE(pages_.TellStored(At(100), 100, 7));
  const auto& lines = Next<HsLines>(HS_ENTRY_LINES);
  EXPECT_EQ(lines.entry.count, 7u);
  EXPECT_EQ(lines.address, At(0));
  EXPECT_EQ(lines.mask, 0b1110u);
  EXPECT_EQ(lines.entry.size, sizeof(HsLines) + 3 * 64);
  EXPECT_EQ(std::memcmp(lines.bytes, data_ + 64, 3 * 64), 0);
  EXPECT_TRUE(IsEmpty());
}

TEST_F(DirectPagesTest, WhatReachesOverPagesIsToldOfEach) {
  ASSERT_TRUE(pages_.TellStored(At(kPage - 1), kPage + 2, 7));
  EXPECT_EQ(Next<HsLines>(HS_ENTRY_LINES).mask, uint64_t{1} << 63);
  EXPECT_EQ(Next<HsLines>(HS_ENTRY_LINES).mask, ~uint64_t{0});
  EXPECT_EQ(Next<HsLines>(HS_ENTRY_LINES).mask, 1u);
  EXPECT_TRUE(IsEmpty());
}

TEST_F(DirectPagesTest, NothingIsStoredInNoBytes) {
  EXPECT_TRUE(pages_.TellStored(At(100), 0, 7));
  EXPECT_TRUE(IsEmpty());
}

TEST_F(DirectPagesTest, WhatCannotBeReadIsNotTold) {
  unreadable = At(kPage);
  EXPECT_FALSE(pages_.TellPage(At(kPage), 7));
  EXPECT_FALSE(pages_.TellStored(At(kPage + 9), 1, 7));
  EXPECT_TRUE(IsEmpty());
  EXPECT_TRUE(pages_.TellPage(At(0), 7));
  EXPECT_EQ(std::memcmp(Next<HsPage>(HS_ENTRY_PAGE).bytes, data_, kPage), 0);
}

TEST_F(DirectPagesTest, WhatASegmentBeginsWithIsToldBeforeTheRest) {
  pages_.TellBegin(7);
  pages_.TellPage(At(0), 7);
  pages_.TellOthersMapped(7);
  const auto& begin = Next<HsMapped>(HS_ENTRY_MAPPED);
  EXPECT_EQ(begin.entry.flags, HS_MAPPED_BEGINS);
  EXPECT_EQ(begin.start, begin.end);
  EXPECT_EQ(Next<HsPage>(HS_ENTRY_PAGE).address, At(0));
  const auto& others = Next<HsMapped>(HS_ENTRY_MAPPED);
  EXPECT_EQ(others.entry.flags, HS_MAPPED_BEGINS);
  EXPECT_EQ(others.start, 0u);
  EXPECT_EQ(others.end, ~uint64_t{0xfff});
}

TEST_F(DirectPagesTest, PagesThatFollowEachOtherAreOneRun) {
  for (const uint64_t page : {1, 2, 3, 7, 8}) pages_.AddUsed(page * kPage, 7);
  pages_.TellUsed(/*all=*/true, 7);
  const auto& used = Next<HsUsed>(HS_ENTRY_USED);
  EXPECT_EQ(used.entry.flags, HS_USED_ALL);
  ASSERT_EQ(used.size, 2u);
  EXPECT_EQ(used.runs[0].start, kPage);
  EXPECT_EQ(used.runs[0].end, 4 * kPage);
  EXPECT_EQ(used.runs[1].start, 7 * kPage);
}

TEST_F(DirectPagesTest, ManyRunsAreSeveralEntriesOfWhichTheLastSaysThatItIs) {
  for (uint64_t page = 0; page < 1000; page += 2) pages_.AddUsed(page * kPage, 7);
  pages_.TellUsed(/*all=*/true, 7);
  const auto& first = Next<HsUsed>(HS_ENTRY_USED);
  EXPECT_EQ(first.entry.flags, 0);
  const uint64_t runs = first.size;
  const auto& second = Next<HsUsed>(HS_ENTRY_USED);
  EXPECT_EQ(second.entry.flags, HS_USED_ALL);
  EXPECT_EQ(runs + second.size, 500u);
  EXPECT_EQ(second.runs[0].start, 2 * runs * kPage);
}

}  // namespace
}  // namespace hindsight
