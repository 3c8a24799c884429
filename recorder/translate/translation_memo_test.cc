#include "recorder/translate/translation_memo.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "recorder/translate/agent/layout.h"

namespace hindsight {
namespace {

constexpr uint64_t kPc = 0x401ff8, kOther = 0x500000, kHost = kPieArena + 4096;

class TranslationMemoTest : public testing::Test {
 protected:
  std::shared_ptr<const Translation> Add(uint64_t host) {
    TranslatedBlock block;
    block.guest_bytes = 4;
    block.relied_on = {{.pc = kOther, .bytes = 2}};
    const auto translation = MakeTranslation(kPc, host, block, bytes_at_);
    memo_.Add(translation);
    return translation;
  }

  std::map<uint64_t, std::vector<uint8_t>> memory_ = {{kPc, {1, 2, 3, 4, 5}}, {kOther, {6, 7, 8}}};
  BytesAt bytes_at_ = [this](uint64_t pc) { return absl::MakeConstSpan(memory_[pc]); };
  TranslationMemo memo_;
};

TEST_F(TranslationMemoTest, TheSameBytesFindTheirTranslation) {
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), nullptr);
  const auto added = Add(kHost);
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), added);
  memory_[kPc][4] = 50;  // behind the block
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), added);
  EXPECT_EQ(memo_.InPage(0x401000).size(), 1u);
  EXPECT_EQ(memo_.InPage(0x401000).front(), added);
  EXPECT_TRUE(memo_.InPage(0x402000).empty());
}

TEST_F(TranslationMemoTest, OtherBytesDoNot) {
  const auto added = Add(kHost);
  memory_[kPc][3] = 40;
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), nullptr);
  const auto changed = Add(kHost + 64);
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), changed);
  memory_[kPc][3] = 4;
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), added);
  memory_[kOther][1] = 70;
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), nullptr);
  memory_[kOther] = {};
  EXPECT_EQ(memo_.Find(kPc, bytes_at_), nullptr);
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
