// A cache of code that takes in pages from the store of translations.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "recorder/translate/code_cache.h"

namespace hindsight {
namespace {

// The first two in one page. kThird reaches over to the page after its own.
constexpr uint64_t kFirst = 0x401000, kSecond = 0x401100, kThird = 0x402ff0, kOther = 0x405000;
// Of the blocks: where their exits begin, and the displacements, at 8 and 24, that lead there.
constexpr uint32_t kExits = 64;
constexpr int32_t kToExit = kExits - 12, kAlsoToExit = kExits - 28;

std::array<uint8_t, 32>& GuestBytes() {
  static std::array<uint8_t, 32> bytes;
  return bytes;
}

class KnownPagesTest : public testing::Test {
 protected:
  KnownPagesTest() : fd_(memfd_create("hindsight", MFD_CLOEXEC)) {
    GuestBytes().fill(7);
    std::filesystem::remove_all(directory_);
    TranslationMemo memo(TranslationStore::Open(directory_, "test"));
    const uint64_t start = memo.TakeChunk(kPieArena).start;
    const std::array<std::pair<uint64_t, uint64_t>, 3> blocks = {
        {{kFirst, kSecond}, {kSecond, kThird}, {kThird, kOther}}};
    uint64_t host = start;
    for (const auto& [pc, target] : blocks) {
      memo.Add(memo.ModuleOf(region_), Make(pc, target, std::exchange(host, host + 640)));
    }
    memo.Save();
    memo_ = std::make_unique<TranslationMemo>(TranslationStore::Open(directory_, "test"));
    memo_->TakeChunk(kPieArena);  // so that nothing comes where it was
    file_ = std::make_unique<MemoryFile>(*MemoryFile::Open(getpid(), fd_.get()));
    cache_ = std::make_unique<CodeCache>(file_.get(), memo_.get());
  }

  // 64 bytes of code for 32 bytes at `pc`, with a branch to `target`, and an exit: `pc`, and an
  // address in the code. That of the exit is in the code.
  std::unique_ptr<Translation> Make(uint64_t pc, uint64_t target, uint64_t host) {
    TranslatedBlock block;
    block.code.assign(kExits + 16, 0x90);
    std::memcpy(&block.code[8], &kToExit, sizeof(kToExit));
    std::memcpy(&block.code[24], &kAlsoToExit, sizeof(kAlsoToExit));
    const uint64_t exit = host + kExits, code = host + 40;
    std::memcpy(&block.code[32], &exit, sizeof(exit));
    std::memcpy(&block.code[kExits], &pc, sizeof(pc));
    std::memcpy(&block.code[kExits + 8], &code, sizeof(code));
    block.exits_offset = kExits;
    block.to_exits = {24};
    block.own = {32, kExits + 8};
    block.guest_bytes = 32;
    block.links = {{.rel32_offset = 8, .guest_target = target}};
    block.side = {{.host_offset = 4, .guest_offset = 0, .adjust = -3},
                  {.host_offset = 20, .guest_offset = 9, .adjust = -2}};
    auto made = MakeTranslation(pc, host, block, TheBytesAt, &pool_);
    made->lasting = true;
    return made;
  }
  static absl::Span<const uint8_t> TheBytesAt(uint64_t) {
    return absl::MakeConstSpan(GuestBytes());
  }
  const TranslationMemo::KnownPage* Page(uint64_t pc) {
    return memo_->KnownPageOf(memo_->ModuleOf(region_), pc);
  }
  void AddAll() {
    EXPECT_TRUE(cache_->AddPage(Page(kFirst)));
    EXPECT_TRUE(cache_->AddPage(Page(kThird)));
  }
  void AddOther() {
    const uint64_t host = cache_->PlaceFor(kOther, 1000);
    cache_->Use(kOther, 64);
    cache_->Add(memo_->Add(nullptr, Make(kOther, kFirst, host)));
  }
  uint64_t WordAt(uint64_t host) const {
    uint64_t word;
    std::memcpy(&word, file_->code(host), sizeof(word));
    return word;
  }
  // Where the displacement at `host` leads.
  uint64_t LeadsTo(uint64_t host) const {
    return host + 4 + static_cast<uint64_t>(int64_t{static_cast<int32_t>(WordAt(host))});
  }
  // Where the branch of the block at `pc`, or that was at `host`, leads.
  uint64_t TargetAt(uint64_t host) const { return LeadsTo(host + 8); }
  uint64_t TargetOf(uint64_t pc) const { return TargetAt(cache_->Find(pc)); }
  uint64_t ExitOf(uint64_t pc) const { return LeadsTo(cache_->Find(pc) + 24); }
  uint64_t InMap(uint64_t pc) const {
    for (const BlockMapEntry& entry : file_->block_map()) {
      if (entry.guest_pc == pc) return entry.host;
    }
    return 0;
  }

  const MapRegion region_ = {.start = 0x400000, .end = 0x500000, .inode = 1, .name = "/bin/a"};
  const std::string directory_ = testing::TempDir() + "/known_pages";
  const UniqueFd fd_;
  StoragePool pool_;
  std::unique_ptr<TranslationMemo> memo_;
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<CodeCache> cache_;
};

TEST_F(KnownPagesTest, TheirBlocksAreMovedAndLinked) {
  AddAll();
  EXPECT_EQ(cache_->block_count(), 3u);
  for (const uint64_t pc : {kFirst, kSecond, kThird}) {
    const uint64_t host = cache_->Find(pc);
    ASSERT_NE(host, 0u);
    EXPECT_EQ(InMap(pc), host);
    const uint64_t exit = ExitOf(pc);
    EXPECT_EQ(WordAt(host + 32), exit);
    EXPECT_EQ(WordAt(exit), pc);
    EXPECT_EQ(WordAt(exit + 8), host + 40);
    EXPECT_FALSE(memo_->places().At(exit).has_value());
    EXPECT_EQ(memo_->places().At(host + 20)->guest_pc, pc + 9);
    EXPECT_FALSE(memo_->places().At(host + 3).has_value());
  }
  EXPECT_EQ(TargetOf(kFirst), cache_->Find(kSecond));
  EXPECT_EQ(TargetOf(kSecond), cache_->Find(kThird));
  EXPECT_EQ(TargetOf(kThird), ExitOf(kThird));
  // What is executed lies together.
  EXPECT_EQ(cache_->Find(kSecond), cache_->Find(kFirst) + kExits);
}

TEST_F(KnownPagesTest, PagesComeInAnyOrder) {
  EXPECT_TRUE(cache_->AddPage(Page(kThird)));
  EXPECT_TRUE(cache_->AddPage(Page(kFirst)));
  EXPECT_EQ(TargetOf(kSecond), cache_->Find(kThird));
}

TEST_F(KnownPagesTest, BlocksThatAreTranslatedLaterAreLinked) {
  AddAll();
  AddOther();
  EXPECT_EQ(TargetOf(kThird), cache_->Find(kOther));
  EXPECT_EQ(TargetOf(kOther), cache_->Find(kFirst));
  cache_->Drop(kOther);
  EXPECT_EQ(TargetOf(kThird), ExitOf(kThird));
}

TEST_F(KnownPagesTest, BlocksThatWereTranslatedBeforeAreLinked) {
  AddOther();
  AddAll();
  EXPECT_EQ(TargetOf(kThird), cache_->Find(kOther));
  EXPECT_EQ(TargetOf(kOther), cache_->Find(kFirst));
}

TEST_F(KnownPagesTest, NothingLeadsToWhatIsInvalid) {
  AddAll();
  AddOther();
  const uint64_t third = cache_->Find(kThird);
  EXPECT_FALSE(cache_->Invalidate(0x404000, 0x405000));
  EXPECT_TRUE(cache_->Invalidate(0x403000, 0x404000));
  EXPECT_EQ(cache_->Find(kThird), 0u);
  EXPECT_EQ(InMap(kThird), 0u);
  EXPECT_EQ(TargetOf(kSecond), ExitOf(kSecond));
  EXPECT_EQ(WordAt(TargetOf(kSecond)), kSecond);
  EXPECT_EQ(TargetOf(kFirst), cache_->Find(kSecond));
  EXPECT_EQ(cache_->block_count(), 3u);
  EXPECT_TRUE(memo_->places().At(third + 20).has_value());  // a thread may be in it
  EXPECT_TRUE(cache_->Invalidate(0x401000, 0x402000));
  EXPECT_EQ(cache_->Find(kFirst), 0u);
  EXPECT_EQ(cache_->Find(kSecond), 0u);
  EXPECT_EQ(TargetOf(kOther), ExitOf(kOther));
}

// Threads may be in the code: it is not written again.
TEST_F(KnownPagesTest, WhatWasInvalidComesBackBlockByBlock) {
  AddAll();
  const uint64_t second = cache_->Find(kSecond), third = cache_->Find(kThird);
  cache_->Invalidate(0, ~uint64_t{0} - 4096);
  EXPECT_EQ(cache_->block_count(), 0u);
  EXPECT_FALSE(cache_->AddPage(Page(kThird)));
  const auto blocks = memo_->InPage(memo_->ModuleOf(region_), kThird);
  ASSERT_EQ(blocks.size(), 1u);
  file_->code(third)[0] = 0xcc;
  cache_->Add(blocks[0]);
  EXPECT_EQ(cache_->Find(kThird), third);
  EXPECT_EQ(file_->code(third)[0], 0xcc);
  EXPECT_EQ(TargetAt(second), third);
  EXPECT_EQ(InMap(kThird), third);
}

TEST_F(KnownPagesTest, APageThatHasBlocksIsNotTaken) {
  const auto blocks = memo_->InPage(memo_->ModuleOf(region_), kFirst);
  ASSERT_EQ(blocks.size(), 2u);
  cache_->Add(blocks[0]);
  EXPECT_FALSE(cache_->AddPage(Page(kFirst)));
  EXPECT_EQ(Page(kThird)->image.Fits(TheBytesAt), true);
  GuestBytes()[15] = 8;
  EXPECT_EQ(Page(kThird)->image.Fits(TheBytesAt), false);
}

// Of a process that was made by fork: code that its maker has, in its own memory.
class InheritedCodeTest : public KnownPagesTest {
 protected:
  InheritedCodeTest() {
    AddAll();
    AddOther();
    EXPECT_TRUE(childs_file_->CopyCode(*file_));
  }
  uint64_t WordOfChildAt(uint64_t host) const {
    uint64_t word;
    std::memcpy(&word, childs_file_->code(host), sizeof(word));
    return word;
  }
  uint64_t TargetInChild(uint64_t pc) const {
    const uint64_t site = child_->Find(pc) + 8;
    return site + 4 + static_cast<uint64_t>(int64_t{static_cast<int32_t>(WordOfChildAt(site))});
  }

  const UniqueFd childs_fd_{memfd_create("hindsight", MFD_CLOEXEC)};
  std::unique_ptr<MemoryFile> childs_file_ =
      std::make_unique<MemoryFile>(*MemoryFile::Open(getpid(), childs_fd_.get()));
  std::unique_ptr<CodeCache> child_ = std::make_unique<CodeCache>(childs_file_.get(), memo_.get());
};

TEST_F(InheritedCodeTest, LiesAndLeadsWhereItsMakersDoes) {
  child_->Inherit(*cache_);
  EXPECT_EQ(child_->block_count(), 4u);
  for (const uint64_t pc : {kFirst, kSecond, kThird, kOther}) {
    EXPECT_EQ(child_->Find(pc), cache_->Find(pc));
    EXPECT_EQ(TargetInChild(pc), TargetOf(pc));
    EXPECT_EQ(memo_->places().At(child_->Find(pc) + 20)->guest_pc, pc + 9);
  }
}

TEST_F(InheritedCodeTest, IsItsOwn) {
  child_->Inherit(*cache_);
  const uint64_t third = cache_->Find(kThird);
  EXPECT_TRUE(child_->Invalidate(0x403000, 0x404000));
  EXPECT_EQ(child_->Find(kThird), 0u);
  EXPECT_NE(TargetInChild(kSecond), third);
  EXPECT_EQ(TargetOf(kSecond), third);
  EXPECT_EQ(InMap(kThird), third);
  // What is new has a place that nobody else has.
  const uint64_t host = child_->PlaceFor(kOther, 1000);
  EXPECT_NE(host, cache_->PlaceFor(kOther, 1000));
}

// As where memory is short: the program must not find anything in the map then.
TEST_F(InheritedCodeTest, IsThereAsAWholeOrNotAtAll) {
  const UniqueFd fd(memfd_create("hindsight", MFD_CLOEXEC));
  MemoryFile file = *MemoryFile::Open(getpid(), fd.get());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit map_only = {kLibraryArenaInFile, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &map_only), 0);
  const bool copied = file.CopyCode(*file_);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(copied);
  for (const BlockMapEntry& entry : file.block_map()) ASSERT_EQ(entry.guest_pc, 0u);
  EXPECT_TRUE(file.CopyCode(*file_));
  EXPECT_NE(InMap(kFirst), 0u);
}

// The maker's check may be left out, as long as stores are watched there.
TEST_F(InheritedCodeTest, HasNothingThatChecksItself) {
  constexpr uint64_t kChecked = 0x405400;
  const uint64_t host = cache_->PlaceFor(kChecked, 1000);
  cache_->Use(kChecked, 64);
  auto made = Make(kChecked, kFirst, host);
  made->lasting = false;
  made->checks_code = true;
  const Translation* const checked = memo_->Add(nullptr, std::move(made));
  cache_->Add(checked);
  ASSERT_TRUE(childs_file_->CopyCode(*file_));
  child_->Inherit(*cache_);
  EXPECT_EQ(child_->Find(kChecked), 0u);
  EXPECT_EQ(child_->Find(kOther), cache_->Find(kOther));
  childs_file_->code(host)[0] = 0xcc;
  child_->Add(checked);
  EXPECT_EQ(child_->Find(kChecked), host);
  EXPECT_EQ(childs_file_->code(host)[0], 0x90) << "written anew";
}

}  // namespace
}  // namespace hindsight
