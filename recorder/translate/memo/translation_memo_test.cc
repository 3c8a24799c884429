#include "recorder/translate/memo/translation_memo.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recorder/translate/base/layout.h"

namespace hindsight {
namespace {

constexpr uint64_t kPc = 0x401ff8, kOther = 0x500000, kHost = kPieArena + 4096;

TranslatedBlock SomeBlock() {
  TranslatedBlock block;
  block.code = {0x90, 0xe9, 0, 0, 0, 0};
  block.outward = {2};
  block.exits_offset = 6;
  block.guest_bytes = 4;
  block.relied_on = {{.pc = kOther, .bytes = 2}};
  return block;
}

class TranslationMemoTest : public testing::Test {
 protected:
  const Translation* Find() { return memo_.Find(memo_.others(), kPc, bytes_at_); }
  const Translation* Add(uint64_t host) {
    return memo_.Add(memo_.others(),
                     MakeTranslation(kPc, host, SomeBlock(), bytes_at_, memo_.pool()));
  }

  std::map<uint64_t, std::vector<uint8_t>> memory_ = {{kPc, {1, 2, 3, 4, 5}}, {kOther, {6, 7, 8}}};
  BytesAt bytes_at_ = [this](uint64_t pc) { return absl::MakeConstSpan(memory_[pc]); };
  TranslationMemo memo_;
};

TEST_F(TranslationMemoTest, TheSameBytesFindTheirTranslation) {
  EXPECT_EQ(Find(), nullptr);
  const Translation* added = Add(kHost);
  EXPECT_EQ(Find(), added);
  memory_[kPc][4] = 50;  // behind the block
  EXPECT_EQ(Find(), added);
  EXPECT_EQ(memo_.InPage(memo_.others(), 0x401000), std::vector{added});
  EXPECT_TRUE(memo_.InPage(memo_.others(), 0x402000).empty());
}

TEST_F(TranslationMemoTest, OtherBytesDoNot) {
  const Translation* added = Add(kHost);
  memory_[kPc][3] = 40;
  EXPECT_EQ(Find(), nullptr);
  const Translation* changed = Add(kHost + 64);
  EXPECT_EQ(Find(), changed);
  EXPECT_EQ(memo_.InPage(memo_.others(), 0x401000), std::vector{changed});
  memory_[kPc][3] = 4;
  EXPECT_EQ(Find(), added);
  memory_[kOther][1] = 70;
  EXPECT_EQ(Find(), nullptr);
  memory_[kOther] = {};
  EXPECT_EQ(Find(), nullptr);
}

TEST_F(TranslationMemoTest, MappingsHaveTheirOwn) {
  const MapRegion region = {.start = 0x400000, .end = 0x500000, .inode = 1, .name = "/bin/a"};
  MapRegion other = region;
  other.inode = 2;
  TranslationMemo::Module* module = memo_.ModuleOf(region);
  const Translation* added =
      memo_.Add(module, MakeTranslation(kPc, kHost, SomeBlock(), bytes_at_, memo_.pool()));
  EXPECT_EQ(memo_.Find(memo_.ModuleOf(region), kPc, bytes_at_), added);
  EXPECT_EQ(memo_.Find(memo_.ModuleOf(other), kPc, bytes_at_), nullptr);
  other = region;
  other.protection = PROT_WRITE;
  EXPECT_EQ(memo_.ModuleOf(other), memo_.others());
}

TEST_F(TranslationMemoTest, CodeOfExclusiveMemoryIsAnother) {
  const MapRegion region = {.start = 0x400000, .end = 0x500000, .inode = 1, .name = "/bin/a"};
  memo_.Add(memo_.ModuleOf(region),
            MakeTranslation(kPc, kHost, SomeBlock(), bytes_at_, memo_.pool()));
  EXPECT_EQ(memo_.Find(memo_.ModuleOf(region, /*exclusive=*/true), kPc, bytes_at_), nullptr);
  EXPECT_NE(memo_.others(), memo_.others(/*exclusive=*/true));
}

TEST_F(TranslationMemoTest, ProgramsShareTheirMemoryAsBefore) {
  const MapRegion region = {.start = 0x400000, .end = 0x500000, .inode = 4, .name = "/bin/a"};
  const std::string directory = testing::TempDir() + "/memo_shares";
  const std::vector<uint8_t> bytes(8, 0x90);
  const auto bytes_at = [&](uint64_t) { return absl::MakeConstSpan(bytes); };
  const auto record = [&](bool exclusive, uint64_t first, uint64_t blocks) {
    TranslationMemo memo(TranslationStore::Open(directory, "test"));
    for (uint64_t i = first; i < first + blocks; ++i) {
      auto made = MakeTranslation(kPc + 8 * i, kHost + 64 * i, SomeBlock(), bytes_at, memo_.pool());
      made->lasting = true;
      memo.Add(memo.ModuleOf(region, exclusive), std::move(made));
    }
    memo.Save();
  };
  const auto shares = [&] {
    return TranslationMemo(TranslationStore::Open(directory, "test")).SharesUsually(region);
  };
  EXPECT_FALSE(shares());
  record(/*exclusive=*/true, 0, 2);
  record(/*exclusive=*/false, 0, 2);
  EXPECT_FALSE(shares());
  record(/*exclusive=*/false, 2, 6);
  EXPECT_FALSE(shares());
  record(/*exclusive=*/false, 8, 1);
  EXPECT_TRUE(shares());
}

// What one recording has given the store is found by the next one, at a place of its own.
TEST_F(TranslationMemoTest, AnotherMemoFindsWhatWasSaved) {
  const MapRegion region = {.start = 0x400000, .end = 0x500000, .inode = 1, .name = "/bin/a"};
  const std::string directory = testing::TempDir() + "/memo_store";
  {
    TranslationMemo memo(TranslationStore::Open(directory, "test"));
    auto made = MakeTranslation(kPc, kHost, SomeBlock(), bytes_at_, memo_.pool());
    made->lasting = true;
    memo.Add(memo.ModuleOf(region), std::move(made));
    auto passing = MakeTranslation(kPc + 4, kHost + 64, SomeBlock(), bytes_at_, memo_.pool());
    memo.Add(memo.ModuleOf(region), std::move(passing));
    memo.Save();
  }
  TranslationMemo memo(TranslationStore::Open(directory, "test"));
  const auto chunk = memo.TakeChunk(kPieArena);
  const Translation* found = memo.Find(memo.ModuleOf(region), kPc, bytes_at_);
  ASSERT_NE(found, nullptr);
  EXPECT_GE(found->host, chunk.end);
  EXPECT_EQ(found->bytes, (std::vector<uint8_t>{1, 2, 3, 4}));
  uint8_t code[6];
  WriteCode(*found, {found->host, found->exits_host}, code, code + sizeof(code));
  int32_t displacement;
  std::memcpy(&displacement, code + 2, sizeof(displacement));
  EXPECT_EQ(found->host + static_cast<uint64_t>(int64_t{displacement}), kHost);
  EXPECT_EQ(memo.InPage(memo.ModuleOf(region), kPc), std::vector{found});
  memory_[kPc][0] = 10;
  EXPECT_EQ(memo.Find(memo.ModuleOf(region), kPc, bytes_at_), nullptr);
}

TEST_F(TranslationMemoTest, PagesFollowEachOtherAsTheyWereUsed) {
  const MapRegion region = {.start = 0x400000, .end = 0x500000, .inode = 3, .name = "/bin/a"};
  const std::string directory = testing::TempDir() + "/memo_order";
  const auto add = [&](TranslationMemo* memo, uint64_t pc) {
    memory_[pc] = {1, 2, 3, 4, 5};
    auto made = MakeTranslation(pc, kHost, SomeBlock(), bytes_at_, memo_.pool());
    made->lasting = true;
    memo->Add(memo->ModuleOf(region), std::move(made));
  };
  {
    TranslationMemo memo(TranslationStore::Open(directory, "test"));
    EXPECT_FALSE(TranslationMemo::PlaceOf(memo.ModuleOf(region), 0x403000).has_value());
    EXPECT_FALSE(TranslationMemo::PageAt(memo.ModuleOf(region), 0).has_value());
    for (const uint64_t pc : {0x403008, 0x401000, 0x403000, 0x402ff0}) add(&memo, pc);
    memo.Save();
  }
  {
    TranslationMemo memo(TranslationStore::Open(directory, "test"));
    memo.NoteUse(memo.ModuleOf(region), 0x401fff);
    add(&memo, 0x404000);
    memo.Save();
  }
  TranslationMemo memo(TranslationStore::Open(directory, "test"));
  const TranslationMemo::Module* const module = memo.ModuleOf(region);
  const std::vector<uint64_t> order = {0x403000, 0x401000, 0x404000, 0x402000};
  for (uint32_t place = 0; place < order.size(); ++place) {
    EXPECT_EQ(TranslationMemo::PageAt(module, place), order[place]);
    EXPECT_EQ(TranslationMemo::PlaceOf(module, order[place] + 0xfff), place);
  }
  EXPECT_FALSE(TranslationMemo::PageAt(module, 4).has_value());
}

TEST_F(TranslationMemoTest, PlacesAreTakenOnce) {
  const auto first = memo_.TakeChunk(kPieArena), second = memo_.TakeChunk(kPieArena);
  EXPECT_GE(first.start, kPieArena);
  EXPECT_EQ(first.end - first.start, TranslationMemo::kChunkBytes);
  EXPECT_TRUE(first.end <= second.start || second.end <= first.start);
  memo_.GiveBack({second.start + 100'000, second.end});
  EXPECT_EQ(memo_.TakeChunk(kPieArena).start, second.start + 100'000);
  int more = 0;
  while (memo_.TakeChunk(kPieArena).end != 0) ++more;
  EXPECT_GT(more, 1000);
  EXPECT_NE(memo_.TakeChunk(kLibraryArena).end, 0u);
}

}  // namespace
}  // namespace hindsight
