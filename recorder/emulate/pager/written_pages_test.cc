#include "recorder/emulate/pager/written_pages.h"

#include <vector>

#include "gtest/gtest.h"
#include "recorder/process/fake_process_memory.h"

namespace hindsight {
namespace {

constexpr uint64_t kAt = 0x1000;

class WrittenPagesTest : public testing::Test {
 protected:
  WrittenPagesTest() {
    page_.address = kAt;
    page_.host = bytes_;
    page_.held = true;
    memory_.Map(kAt, kPageBytes);
  }
  // Without the pieces' bytes: start and length.
  std::vector<std::pair<uint64_t, uint64_t>> Changes(bool others_store) {
    std::vector<std::pair<uint64_t, uint64_t>> result;
    for (const MemoryPiece& piece : written_.Changes(others_store)) {
      result.emplace_back(piece.address - kAt, piece.length);
    }
    return result;
  }

  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  uint8_t bytes_[kPageBytes] = {};
  KnownPage page_;
  WrittenPages written_;
  FakeProcessMemory memory_;
};

TEST_F(WrittenPagesTest, APageThatIsNobodyElsesGoesAsAWhole) {
  written_.Add(&page_, 5, false);
  EXPECT_TRUE(page_.dirty);
  EXPECT_EQ(Changes(true), Ranges({{0, kPageBytes}}));
}

TEST_F(WrittenPagesTest, OnlyChangedBytesGoWhereOthersStore) {
  written_.KeepPristine(true);
  written_.Add(&page_, 5, false);
  bytes_[8] = bytes_[10] = bytes_[200] = 1;
  EXPECT_EQ(Changes(true), Ranges({{8, 1}, {10, 1}, {200, 1}}));
  EXPECT_EQ(Changes(false), Ranges({{0, 256}}));  // lines, and what lies between
  page_.shared = true;
  EXPECT_EQ(Changes(false).size(), 3u);
}

TEST_F(WrittenPagesTest, SettledPagesStayDirtyWhileTheirGrantLasts) {
  written_.Add(&page_, 5, false);
  int settled = 0;
  std::vector<uint64_t> clean;
  while (clean.empty()) clean = written_.Settle([&](const KnownPage&) { ++settled; });
  EXPECT_EQ(clean, std::vector<uint64_t>({kAt}));
  EXPECT_EQ(settled, 5);
  EXPECT_FALSE(page_.dirty);
  EXPECT_TRUE(page_.copied);
  EXPECT_TRUE(written_.empty());
}

TEST_F(WrittenPagesTest, FirstWritesAreNoted) {
  written_.Add(&page_, 5, true);
  EXPECT_TRUE(written_.TakeNoted().empty());
  written_.set_note(WrittenPages::Note::kShared);
  EXPECT_EQ(written_.Settle([](const KnownPage&) {}).size(), 1u);  // no grant: each is noticed
  written_.Add(&page_, 6, true);
  written_.Add(&page_, 7, true);
  const std::vector<NotedWrite> noted = written_.TakeNoted();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].count, 6u);
}

TEST_F(WrittenPagesTest, RollbackTakesBytesFromTheProcessOrFromWhatWasKept) {
  memory_[kAt + 8] = 3;
  written_.Add(&page_, 5, false);
  bytes_[8] = 1;
  int changed = 0;
  auto clean = written_.Rollback(memory_, [&](const KnownPage&) { ++changed; });
  ASSERT_TRUE(clean.has_value());
  EXPECT_EQ(clean->size(), 1u);
  EXPECT_EQ(bytes_[8], 3);
  written_.KeepPristine(true);
  written_.Add(&page_, 5, false);
  memory_.Unmap(kAt);
  bytes_[8] = 1;
  EXPECT_TRUE(written_.Rollback(memory_, [&](const KnownPage&) { ++changed; }).has_value());
  EXPECT_EQ(bytes_[8], 3);
  EXPECT_EQ(changed, 2);
}

TEST_F(WrittenPagesTest, RollbackFailsWhereTheProcessIsGone) {
  written_.Add(&page_, 5, false);
  memory_.Unmap(kAt);
  EXPECT_FALSE(written_.Rollback(memory_, [](const KnownPage&) {}).has_value());
}

}  // namespace
}  // namespace hindsight
