#include "emulator/cpu/paged_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x7000'0000;

class PagedMemoryTest : public testing::Test, public Pager, public AccessObserver {
 protected:
  bool OnMissing(uint64_t page, Access access) override {
    if (existing_.count(page) == 0) return false;
    std::memset(memory_.view().HostPage(page), 0x11, kPageBytes);
    memory_.view().SetRights(page, PageRights::kRead);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override { return read_only_.count(page) == 0; }
  void OnCodeWrite(uint64_t page) override { code_writes_.push_back(page); }
  void OnWatchedAccess(bool write, uint64_t address, uint32_t size, uint64_t value) override {
    watched_.push_back({write, address, size, value});
  }

  bool Write(uint64_t address, std::vector<uint8_t> bytes) { return memory_.Write(address, bytes); }
  std::vector<uint8_t> Read(uint64_t address, size_t size) {
    std::vector<uint8_t> bytes(size);
    if (!memory_.Read(address, absl::MakeSpan(bytes))) bytes.clear();
    return bytes;
  }

  struct Watched {
    bool write;
    uint64_t address;
    uint32_t size;
    uint64_t value;
    bool operator==(const Watched&) const = default;
  };
  std::set<uint64_t> existing_ = {kPage, kPage + kPageBytes};
  std::set<uint64_t> read_only_;
  std::vector<uint64_t> code_writes_;
  std::vector<Watched> watched_;
  PagedMemory memory_{this, this};
};

using Bytes = std::vector<uint8_t>;

TEST_F(PagedMemoryTest, PagesAreObtainedWhereAnAccessNeedsThem) {
  EXPECT_EQ(Read(kPage + kPageBytes - 1, 2), Bytes({0x11, 0x11}));
  EXPECT_TRUE(Write(kPage + kPageBytes - 1, {1, 2}));
  EXPECT_EQ(Read(kPage + kPageBytes - 1, 2), Bytes({1, 2}));
  EXPECT_EQ(memory_.view().rights(kPage), PageRights::kReadWrite);
}

TEST_F(PagedMemoryTest, AccessesThatFaultNameTheirAddress) {
  EXPECT_EQ(Read(kPage + 2 * kPageBytes - 1, 2), Bytes());
  EXPECT_EQ(memory_.fault_address(), kPage + 2 * kPageBytes);
  EXPECT_EQ(Read(~uint64_t{0}, 2), Bytes());
  read_only_ = {kPage};
  EXPECT_FALSE(Write(kPage + 8, {1}));
  EXPECT_EQ(memory_.fault_address(), kPage + 8);
}

TEST_F(PagedMemoryTest, AWriteToCodeIsReported) {
  ASSERT_TRUE(Write(kPage, {1}));
  memory_.view().SetCode(kPage, true);
  ASSERT_TRUE(Write(kPage, {2}));
  EXPECT_EQ(code_writes_, std::vector<uint64_t>({kPage}));
}

TEST_F(PagedMemoryTest, WatchedAccessesAreReportedAndHaveNoPointer) {
  EXPECT_NE(memory_.Pointer(kPage, 8, /*write=*/false), nullptr);
  memory_.watchpoints().Set({{.address = kPage, .length = 4, .on_read = true}});
  EXPECT_EQ(memory_.Pointer(kPage, 8, /*write=*/false), nullptr);
  EXPECT_EQ(Read(kPage + 2, 4).size(), 4u);
  EXPECT_TRUE(Write(kPage, {1, 2}));
  EXPECT_TRUE(Write(kPage + 8, {1, 2}));
  EXPECT_EQ(watched_, std::vector<Watched>({{false, kPage + 2, 4, 0}, {true, kPage, 2, 0x201}}));
}

TEST_F(PagedMemoryTest, TheByteBeforeAWrite) {
  EXPECT_EQ(memory_.ByteBeforeWrite(kPage), 0x11);
  EXPECT_EQ(memory_.ByteBeforeWrite(kPage + 2 * kPageBytes), std::nullopt);
}

TEST_F(PagedMemoryTest, PoisonedPagesGetTheirContentsBack) {
  ASSERT_TRUE(Write(kPage, {1}));
  memory_.Poison(kPage);
  memory_.view().HostPage(kPage)[0] = 2;
  memory_.Poison(kPage);
  memory_.view().HostPage(kPage)[0] = 3;
  std::vector<bool> gone;
  memory_.RestorePoisoned([&](uint64_t page, bool is_gone) {
    EXPECT_EQ(page, kPage);
    gone.push_back(is_gone);
  });
  EXPECT_EQ(gone, std::vector<bool>({false, false}));
  EXPECT_EQ(Read(kPage, 1), Bytes({1}));
}

TEST_F(PagedMemoryTest, AChunkMadeToBePoisonedIsGone) {
  constexpr uint64_t kElsewhere = kPage + 4 * View::kChunkBytes;
  memory_.Poison(kElsewhere);
  EXPECT_NE(memory_.view().Find(kElsewhere), nullptr);
  memory_.RestorePoisoned([](uint64_t, bool gone) { EXPECT_TRUE(gone); });
  EXPECT_EQ(memory_.view().Find(kElsewhere), nullptr);
}

}  // namespace
}  // namespace hindsight
