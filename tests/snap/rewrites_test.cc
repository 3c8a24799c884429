// Memory that a program writes all the time is read while it stands still, the rest later, files
// but once: a snapshot shows no difference.

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

// What snapshots have of a page of a file that is stored to before each, as a private mapping shows
// it; its times say that it is what it was when it was stored in the trace. -1: unknown.
std::vector<int> BytesOfMappedFile(const char* who, uint64_t offset) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  std::vector<std::string> command = {Hindsight(),
                                      "snap",
                                      "--quiet",
                                      "-o",
                                      trace,
                                      "--",
                                      Runfile("tests/snap/mapped_file"),
                                      directory.File("file")};
  if (*who != 0) command.emplace_back(who);
  const ChildResult run = RunProcess(command);
  EXPECT_EQ(run.Ending(), "exit 0") << run.err;
  const uint64_t page = std::strtoull(run.out.c_str(), nullptr, 16) + offset;
  const auto reader = TraceReader::Open(trace);
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<int> bytes;
  for (const auto& keyframe : (*reader)->full_keyframes()) {
    std::vector<uint8_t> now(4096);
    const bool known = keyframe->ReadPage(page, absl::MakeSpan(now)).ok();
    EXPECT_TRUE(known || !keyframe->SawAllAt(page));
    bytes.push_back(known ? now[100] : -1);
  }
  return bytes;
}

TEST(RewrittenFileTest, IsThatOfEachMomentWhereItIsUsed) {
  EXPECT_EQ(BytesOfMappedFile("", 4096), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(BytesOfMappedFile("child", 4096), (std::vector<int>{1, 2, 3, 4}));
}

// The process runs on while memory is read that it does not use, and the file may change.
TEST(RewrittenFileTest, IsUnknownElsewhere) {
  constexpr uint64_t kFar = 60 * 4096;  // the kernel maps what is near as well
  EXPECT_EQ(BytesOfMappedFile("", kFar), (std::vector<int>{-1, -1, -1, -1}));
  EXPECT_EQ(BytesOfMappedFile("child", kFar), (std::vector<int>{-1, -1, -1, -1}));
}

}  // namespace
}  // namespace hindsight::e2e
