// Snapshots hold each page as it was, however it changed or did not, and store what did not once.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

constexpr uint64_t kPages = 1024, kSnapshots = 6, kPageSize = 4096;

// What pages.c has at the beginning of page `i` at snapshot `number`; 0: the page is not mapped.
uint64_t WordOf(uint64_t i, uint64_t number) {
  const bool moved = number > 3;
  if (moved && i == 31) return 0;
  if (moved && i == 47) i = 31;
  const uint64_t round = i % 16;
  return round != 0 && round < number ? 1000 * round + i : i;
}

class SnapPagesTest : public testing::Test {
 protected:
  void Snap(const std::string& option) {
    const ChildResult run =
        RunProcess({Hindsight(), "snap", option, "-o", trace_, "--", Runfile("tests/snap/pages")});
    ASSERT_EQ(run.Ending(), "exit 0") << run.err;
    start_ = std::strtoull(run.out.c_str(), nullptr, 16);
  }
  void CheckPages() {
    const auto trace = TraceReader::Open(trace_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    ASSERT_EQ((*trace)->full_keyframes().size(), kSnapshots);
    for (uint64_t number = 1; number <= kSnapshots; ++number) {
      const auto& keyframe = (*trace)->full_keyframes()[number - 1];
      EXPECT_TRUE(keyframe->CheckFile().ok());
      for (uint64_t i = 0; i < kPages; ++i) {
        uint64_t page[kPageSize / 8] = {};
        const auto read = keyframe->ReadPage(start_ + i * kPageSize,
                                             {reinterpret_cast<uint8_t*>(page), sizeof(page)});
        if (WordOf(i, number) == 0 && i != 0) {
          EXPECT_TRUE(absl::IsNotFound(read)) << i << " in " << number;
          continue;
        }
        ASSERT_TRUE(read.ok()) << i << " in " << number << ": " << read;
        EXPECT_EQ(page[0], WordOf(i, number)) << i << " in " << number;
      }
    }
  }
  uint64_t SizeOf(uint64_t number) const {
    return std::filesystem::file_size(absl::StrCat(trace_, "/full/", number));
  }

  TempDir directory_;
  const std::string trace_ = directory_.path() + "/trace";
  uint64_t start_ = 0;
};

TEST_F(SnapPagesTest, UnwrittenPagesAreThoseOfTheSnapshotBefore) {
  Snap("--quiet");
  CheckPages();
  for (uint64_t number = 2; number <= kSnapshots; ++number) {
    EXPECT_LT(SizeOf(number), SizeOf(1) / 5) << number;
  }
}

// No copy is kept: what has not changed is found by its contents.
TEST_F(SnapPagesTest, WithoutRoomForTheCopyBefore) {
  Snap("--max-memory=1M");
  CheckPages();
  for (uint64_t number = 2; number <= kSnapshots; ++number) {
    EXPECT_LT(SizeOf(number), SizeOf(1) / 5) << number;
  }
}

}  // namespace
}  // namespace hindsight::e2e
