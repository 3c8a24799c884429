#include "recorder/translate/code_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

MemoryFile OwnFile() {
  const UniqueFd fd(memfd_create("hindsight", MFD_CLOEXEC));
  auto file = MemoryFile::Open(getpid(), fd.get());
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

constexpr uint64_t kFirst = 0x401000, kSecond = 0x402ff0, kLibrary = 0x2aaaaaaab100;
constexpr int32_t kToExit = 100;

class CodeCacheTest : public testing::Test {
 protected:
  // 64 bytes of code that reads `flags_read`, for `bytes` bytes at `pc`, with a branch to `target`.
  void Add(uint64_t pc, uint64_t target, uint32_t bytes = 32, uint16_t flags_read = 0) {
    TranslatedBlock block;
    block.code.assign(64, 0x90);
    std::memcpy(&block.code[8], &kToExit, sizeof(kToExit));
    block.exits_offset = 64;
    block.guest_bytes = bytes;
    block.links = {{.rel32_offset = 8, .guest_target = target}};
    block.side = {{.host_offset = 4, .guest_offset = 0, .adjust = -3, .flags_exact = flags_read},
                  {.host_offset = 20, .guest_offset = 9, .adjust = -2}};
    auto translation = MakeTranslation(
        pc, cache_.PlaceFor(pc, 1000), block, [](uint64_t) { return absl::Span<const uint8_t>(); },
        &pool_);
    cache_.Use(pc, block.code.size());
    translations_.push_back(std::move(translation));
    cache_.Add(translations_.back().get());
  }
  // Where the branch of the block at `host` leads.
  uint64_t TargetOf(uint64_t host) const {
    int32_t displacement;
    std::memcpy(&displacement, file_.code(host + 8), sizeof(displacement));
    return host + 12 + static_cast<uint64_t>(int64_t{displacement});
  }
  uint64_t InMap(uint64_t pc) const {
    for (const BlockMapEntry& entry : file_.block_map()) {
      if (entry.guest_pc == pc) return entry.host;
    }
    return 0;
  }

  MemoryFile file_ = OwnFile();
  StoragePool pool_;
  std::vector<std::unique_ptr<const Translation>> translations_;
  TranslationMemo memo_;
  CodeCache cache_{&file_, &memo_};
};

TEST_F(CodeCacheTest, BranchesAreLinkedInEitherOrder) {
  Add(kFirst, kSecond);
  const uint64_t first = cache_.Find(kFirst);
  EXPECT_EQ(TargetOf(first), first + 12 + kToExit);
  Add(kSecond, kFirst);
  EXPECT_EQ(TargetOf(first), cache_.Find(kSecond));
  EXPECT_EQ(TargetOf(cache_.Find(kSecond)), first);
  EXPECT_EQ(InMap(kFirst), first);
}

TEST_F(CodeCacheTest, LibrariesHaveAnArenaOfTheirOwn) {
  Add(kFirst, kSecond);
  Add(kLibrary, kLibrary);
  EXPECT_LT(cache_.Find(kFirst) - kPieArena, kArenaBytes);
  EXPECT_LT(cache_.Find(kLibrary) - kLibraryArena, kArenaBytes);
  EXPECT_EQ(TargetOf(cache_.Find(kLibrary)), cache_.Find(kLibrary));
}

TEST_F(CodeCacheTest, NothingLeadsToWhatIsInvalid) {
  Add(kFirst, kSecond);
  Add(kSecond, kFirst);  // reaches over to the next page
  const uint64_t first = cache_.Find(kFirst);
  EXPECT_TRUE(cache_.Invalidate(0x403000, 0x404000));
  EXPECT_EQ(cache_.Find(kSecond), 0u);
  EXPECT_EQ(InMap(kSecond), 0u);
  EXPECT_EQ(TargetOf(first), first + 12 + kToExit);
  EXPECT_EQ(cache_.Find(kFirst), first);
  EXPECT_FALSE(cache_.Invalidate(0x500000, 0x600000));
  Add(kSecond, kFirst);
  EXPECT_EQ(TargetOf(first), cache_.Find(kSecond));
}

TEST_F(CodeCacheTest, TheMapSaysWhetherABlockReadsFlags) {
  Add(kFirst, kSecond);
  EXPECT_EQ(InMap(kFirst), cache_.Find(kFirst));
  constexpr uint16_t kCarry = 1;
  Add(kFirst + 64, kSecond, 32, kCarry);
  EXPECT_EQ(InMap(kFirst + 64), cache_.Find(kFirst + 64) | kReadsFlags);
}

TEST_F(CodeCacheTest, WhatComesBackIsWhereItWas) {
  Add(kFirst, kSecond);
  const uint64_t first = cache_.Find(kFirst);
  Add(kSecond, kFirst);
  cache_.Invalidate(0, ~uint64_t{0} - 4096);
  EXPECT_EQ(cache_.block_count(), 0u);
  EXPECT_EQ(TargetOf(first), first + 12 + kToExit);
  cache_.Add(translations_[0].get());
  EXPECT_EQ(cache_.Find(kFirst), first);
  EXPECT_EQ(TargetOf(first), first + 12 + kToExit);
  cache_.Add(translations_[1].get());
  EXPECT_EQ(TargetOf(first), cache_.Find(kSecond));
}

}  // namespace
}  // namespace hindsight
