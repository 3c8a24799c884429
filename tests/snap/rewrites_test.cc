// Memory that a program writes all the time is read while it stands still, the rest later: a
// snapshot shows no difference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

constexpr uint64_t kPages = 24 * 256, kBlockPages = 256, kSnapshots = 12, kPageWords = 512;

bool IsWritten(uint64_t block, uint64_t round) {
  if (round == 1) return true;
  if (block % 6 == 5) return false;
  return block % 6 != 4 || (round >= 4 && round <= 6);
}

// What rewrites.c has in all of a page at snapshot `number`.
uint64_t WordOf(uint64_t page, uint64_t number) {
  while (!IsWritten(page / kBlockPages, number)) --number;
  return number << 32 | page;
}

class RewritesTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Limits, RewritesTest,
                         testing::Values("--quiet", "--max-written=0", "--max-written=3M",
                                         "--max-memory=1M"));

TEST_P(RewritesTest, EachSnapshotHasThePagesOfItsMoment) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  const ChildResult run = RunProcess(
      {Hindsight(), "snap", GetParam(), "-o", trace, "--", Runfile("tests/snap/rewrites")});
  ASSERT_EQ(run.Ending(), "exit 0") << run.err;
  const uint64_t start = std::strtoull(run.out.c_str(), nullptr, 16);
  const ChildResult verify = RunProcess({Hindsight(), "verify", trace});
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
  const auto reader = TraceReader::Open(trace);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ((*reader)->full_keyframes().size(), kSnapshots);
  for (uint64_t number = 1; number <= kSnapshots; ++number) {
    const auto& keyframe = (*reader)->full_keyframes()[number - 1];
    for (uint64_t i = 0; i < kPages; ++i) {
      std::vector<uint64_t> page(kPageWords);
      const auto read = keyframe->ReadPage(start + i * sizeof(uint64_t) * kPageWords,
                                           {reinterpret_cast<uint8_t*>(page.data()), 4096});
      ASSERT_TRUE(read.ok()) << i << " in " << number << ": " << read;
      ASSERT_EQ(std::count(page.begin(), page.end(), WordOf(i, number)), kPageWords)
          << i << " in " << number;
    }
  }
}

}  // namespace
}  // namespace hindsight::e2e
