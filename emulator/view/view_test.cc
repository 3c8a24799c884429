#include "emulator/view/view.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "emulator/view/fault_handler.h"

namespace hindsight {
namespace {

constexpr uint64_t kBase = 0x555555554000;

// Touches pages through their guest mapping and notes which accesses the host refused.
class ViewTest : public testing::Test, public FaultClient {
 protected:
  bool OnHostFault(void* pointer, bool write) override {
    uint64_t address = 0;
    if (!view_.GuestAddress(pointer, &address)) return false;
    refused_ = true;
    view_.Poison(PageOf(address));  // let the access through
    return true;
  }
  uint8_t* Guest(uint64_t page) {
    View::Chunk* chunk = view_.FindOrCreate(page);
    return chunk->guest + (page - chunk->base);
  }
  PageRights Granted(uint64_t page) {
    FaultScope scope(this);
    auto* byte = reinterpret_cast<volatile uint8_t*>(Guest(page));
    refused_ = false;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    uint8_t value = *byte;
    // The compiler does not know that the access may call OnHostFault.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    bool readable = !refused_;
    view_.Regrant(page);
    refused_ = false;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    *byte = value;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    bool writable = !refused_;
    view_.Regrant(page);
    if (writable) return PageRights::kReadWrite;
    return readable ? PageRights::kRead : PageRights::kNone;
  }

  View view_;
  volatile bool refused_ = false;  // written by the fault handler
};

// Sets a limit for the time of a test.
class MappingsLimit {
 public:
  explicit MappingsLimit(int64_t limit) { View::LimitHostMappings(limit); }
  ~MappingsLimit() { View::LimitHostMappings(40'000); }
};

TEST_F(ViewTest, CountsHostMappings) {
  const int64_t before = View::HostMappings();
  {
    View view;
    view.SetRights(kBase, PageRights::kNone);
    EXPECT_EQ(View::HostMappings(), before + 2);
    view.SetRights(kBase, PageRights::kRead);
    EXPECT_EQ(View::HostMappings(), before + 4);
    view.SetRights(kBase + kPageBytes, PageRights::kRead);
    EXPECT_EQ(View::HostMappings(), before + 4);
    view.SetRights(kBase + kPageBytes, PageRights::kReadWrite);
    EXPECT_EQ(View::HostMappings(), before + 5);
    view.SetRights(kBase + 3 * kPageBytes, PageRights::kReadWrite);
    EXPECT_EQ(View::HostMappings(), before + 7);
    view.DropAllRights();
    EXPECT_EQ(View::HostMappings(), before + 2);
    view.SetRights(kBase, PageRights::kRead);
  }
  EXPECT_EQ(View::HostMappings(), before);
}

TEST_F(ViewTest, ManyScatteredPagesDoNotUseUpTheHostsMappings) {
  MappingsLimit limit(View::HostMappings() + 100);
  const int64_t before = View::HostMappings();
  for (uint64_t i = 0; i < 2000; ++i)
    view_.SetRights(kBase + 2 * i * kPageBytes, PageRights::kRead);
  EXPECT_LT(View::HostMappings(), before + 200);
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(view_.rights(kBase + 2 * i * kPageBytes), PageRights::kRead);
    view_.Regrant(kBase + 2 * i * kPageBytes);
    ASSERT_EQ(Granted(kBase + 2 * i * kPageBytes), PageRights::kRead);
  }
  EXPECT_LT(View::HostMappings(), before + 200);
}

TEST_F(ViewTest, HostGrantsWhatTheViewGrants) {
  EXPECT_EQ(Granted(kBase), PageRights::kNone);
  for (PageRights rights : {PageRights::kRead, PageRights::kReadWrite, PageRights::kNone}) {
    view_.SetRights(kBase, rights);
    EXPECT_EQ(view_.rights(kBase), rights);
    EXPECT_EQ(Granted(kBase), rights);
  }
}

TEST_F(ViewTest, CodePagesAreNeverWritable) {
  view_.SetRights(kBase, PageRights::kReadWrite);
  view_.SetCode(kBase, true);
  EXPECT_EQ(view_.rights(kBase), PageRights::kReadWrite);
  EXPECT_EQ(Granted(kBase), PageRights::kRead);
  view_.SetCode(kBase, false);
  view_.Regrant(kBase);
  EXPECT_EQ(Granted(kBase), PageRights::kReadWrite);
}

TEST_F(ViewTest, HostPagesAreAlwaysAccessible) {
  std::memset(view_.HostPage(kBase), 0x5a, kPageBytes);
  view_.SetRights(kBase, PageRights::kRead);
  EXPECT_EQ(Guest(kBase)[100], 0x5a);
}

// The recorded program may have set it, and the recorder has inherited it.
TEST_F(ViewTest, IsNoFileToTheLimitOfTheirSize) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = kPageBytes;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  uint8_t* const page = view_.HostPage(kBase);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_NE(page, nullptr);
  std::memset(page, 0x5a, kPageBytes);
}

TEST_F(ViewTest, NothingLiesAboveTheUserAddresses) {
  EXPECT_EQ(view_.HostPage(View::kAddressLimit), nullptr);
  EXPECT_EQ(view_.HostPage(0xffff800000000000), nullptr);
  EXPECT_NE(view_.HostPage(View::kAddressLimit - kPageBytes), nullptr);
}

TEST_F(ViewTest, ReadsOnlyHeldPages) {
  std::vector<uint8_t> out(16);
  uint64_t next = kBase + kPageBytes;
  view_.SetRights(kBase, PageRights::kRead);
  EXPECT_TRUE(view_.ReadHeld(next - 16, absl::MakeSpan(out)));
  EXPECT_FALSE(view_.ReadHeld(next - 8, absl::MakeSpan(out)));
  view_.HostPage(next)[0] = 7;
  view_.SetRights(next, PageRights::kRead);
  EXPECT_TRUE(view_.ReadHeld(next - 8, absl::MakeSpan(out)));
  EXPECT_EQ(out[8], 7);
}

TEST_F(ViewTest, ReleasedPagesAreZerosWithoutRights) {
  const std::vector<uint64_t> pages = {kBase + kPageBytes, kBase};
  for (const uint64_t page : pages) {
    std::memset(view_.HostPage(page), 0x5a, kPageBytes);
    view_.SetRights(page, PageRights::kReadWrite);
  }
  view_.HostPage(kBase + 2 * kPageBytes)[0] = 1;
  view_.Release(pages);
  for (const uint64_t page : pages) {
    EXPECT_EQ(Granted(page), PageRights::kNone);
    EXPECT_EQ(view_.HostPage(page)[17], 0);
  }
  EXPECT_EQ(view_.HostPage(kBase + 2 * kPageBytes)[0], 1);
}

TEST_F(ViewTest, RemovedChunksCostNothing) {
  const int64_t before = View::HostMappings();
  const uint64_t chunk = 7 * View::kChunkBytes;
  view_.SetRights(chunk + kPageBytes, PageRights::kReadWrite);
  view_.HostPage(chunk + kPageBytes)[0] = 1;
  EXPECT_GT(View::HostMappings(), before);
  view_.Release({chunk + kPageBytes});
  view_.RemoveChunk(chunk);
  EXPECT_EQ(View::HostMappings(), before);
  EXPECT_EQ(view_.Find(chunk), nullptr);
  EXPECT_EQ(view_.HostPage(chunk + kPageBytes)[0], 0);
}

// Unicorn gets few regions, wherever the chunks lie.
TEST_F(ViewTest, ManyChunksAreFewRegions) {
  const int64_t before = View::HostMappings();
  constexpr uint64_t kStride = 2 * View::kChunkBytes, kFirst = 0x100000000000;
  std::set<uint64_t> regions;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t page = kFirst + i * kStride + i * kPageBytes;
    view_.SetRights(page, PageRights::kRead);
    view_.HostPage(page)[7] = static_cast<uint8_t>(i);
    regions.insert(view_.RegionOf(page)->base);
  }
  EXPECT_LT(regions.size(), 100u);
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t page = kFirst + i * kStride + i * kPageBytes;
    ASSERT_EQ(Guest(page)[7], static_cast<uint8_t>(i));
    uint64_t address = 0;
    ASSERT_TRUE(view_.GuestAddress(Guest(page) + 7, &address));
    ASSERT_EQ(address, page + 7);
    ASSERT_EQ(Granted(page), PageRights::kRead);
    ASSERT_EQ(Granted(page + kPageBytes), PageRights::kNone);
  }
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t page = kFirst + i * kStride + i * kPageBytes;
    view_.Release({page});
    view_.RemoveChunk(page & ~(View::kChunkBytes - 1));
    ASSERT_EQ(view_.Find(page), nullptr);
  }
  EXPECT_LT(View::HostMappings(), before + 100);
  view_.HostPage(kFirst + 999 * kStride)[7] = 1;
  EXPECT_EQ(view_.HostPage(kFirst + 999 * kStride + kPageBytes)[7], 0);
}

// In a window, where no chunk is.
TEST_F(ViewTest, WhatAWindowDoesNotHaveFaults) {
  for (uint64_t i = 0; i < 60; ++i) view_.HostPage(0x100000000000 + i * 2 * View::kChunkBytes);
  const View::Region* region = view_.RegionOf(0x100000000000 + 119 * View::kChunkBytes);
  ASSERT_NE(region, nullptr);
  ASSERT_GT(region->bytes, View::kChunkBytes);
  const uint64_t page = 0x100000000000 + 119 * View::kChunkBytes;
  ASSERT_EQ(view_.Find(page), nullptr);
  FaultScope scope(this);
  refused_ = false;
  const volatile uint8_t* const byte = region->guest + (page - region->base);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  EXPECT_EQ(*byte, 0);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  EXPECT_TRUE(refused_);
  EXPECT_NE(view_.Find(page), nullptr);
}

// Pages on both sides of a chunk's end follow each other, but not in the chunk's tables.
TEST_F(ViewTest, LoweringAcrossTheEndOfAChunkLowersBothSides) {
  constexpr uint64_t kEnd = (kBase & ~(View::kChunkBytes - 1)) + View::kChunkBytes;
  for (PageRights to : {PageRights::kRead, PageRights::kNone}) {
    std::vector<uint64_t> pages;
    for (uint64_t page = kEnd - 3 * kPageBytes; page < kEnd + 3 * kPageBytes; page += kPageBytes) {
      view_.SetRights(page, PageRights::kReadWrite);
      pages.push_back(page);
    }
    const std::vector<uint64_t> lowered(pages.begin() + 1, pages.end() - 1);
    to == PageRights::kRead ? view_.ProtectWrites(lowered) : view_.DropRights(lowered);
    for (uint64_t page : pages) {
      const bool stays = page == pages.front() || page == pages.back();
      EXPECT_EQ(view_.rights(page), stays ? PageRights::kReadWrite : to) << std::hex << page;
      EXPECT_EQ(Granted(page), stays ? PageRights::kReadWrite : to) << std::hex << page;
    }
  }
}

// Lowering many pages at once must leave each with what lowering it alone would.
TEST_F(ViewTest, LoweringManyEqualsLoweringEach) {
  constexpr int kPages = 200;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<PageRights> expected(kPages);
    for (int i = 0; i < kPages; ++i) {
      expected[i] = static_cast<PageRights>(random() % 3);
      view_.SetRights(kBase + i * kPageBytes, expected[i]);
    }
    PageRights to = random() % 2 != 0 ? PageRights::kRead : PageRights::kNone;
    std::vector<uint64_t> lowered;
    for (int i = 0; i < kPages; ++i) {
      if (random() % 3 == 0) continue;
      lowered.push_back(kBase + i * kPageBytes);
      expected[i] = std::min(expected[i], to);
    }
    std::shuffle(lowered.begin(), lowered.end(), random);
    to == PageRights::kRead ? view_.ProtectWrites(lowered) : view_.DropRights(lowered);
    for (int i = 0; i < kPages; ++i) {
      ASSERT_EQ(view_.rights(kBase + i * kPageBytes), expected[i]) << i;
      ASSERT_LE(Granted(kBase + i * kPageBytes), expected[i]) << i;
    }
  }
}

}  // namespace
}  // namespace hindsight
