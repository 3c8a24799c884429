// Traces written by released versions stay readable: testdata/ has one per format version and
// extension of it, and what a reader must say of it. A change of the format that makes this fail
// needs a new version.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tracefmt/samples/sample_ring.h"
#include "tracefmt/samples/sample_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A copy of a directory of testdata/: Bazel shows links there, which no trace may hold.
class Copy {
 public:
  explicit Copy(const std::string& name) : path_(testing::TempDir() + "/" + name) {
    std::filesystem::copy("tracefmt/testdata/" + name, path_,
                          std::filesystem::copy_options::recursive);
  }
  ~Copy() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Golden, Version1) {
  const Copy copy("golden-v1");
  const auto trace = TraceReader::Open(copy.path());
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE((*trace)->warnings().empty());
  EXPECT_EQ(Describe(**trace), FileText("tracefmt/testdata/golden-v1.txt"));
}

TEST(Golden, Version1WithProcesses) {
  EXPECT_EQ(DescribeRecording(Copy("golden-v1-processes").path()),
            FileText("tracefmt/testdata/golden-v1-processes.txt"));
}

TEST(Golden, Version1WithTotals) {
  EXPECT_EQ(DescribeRecording(Copy("golden-v1-totals").path()),
            FileText("tracefmt/testdata/golden-v1-totals.txt"));
}

TEST(Golden, Version1WithMapParts) {
  EXPECT_EQ(DescribeRecording(Copy("golden-v1-map-parts").path()),
            FileText("tracefmt/testdata/golden-v1-map-parts.txt"));
}

TEST(Golden, Version1WithMappedRanges) {
  EXPECT_EQ(DescribeRecording(Copy("golden-v1-mapped-ranges").path()),
            FileText("tracefmt/testdata/golden-v1-mapped-ranges.txt"));
}

TEST(Golden, Version1WithReferencedPages) {
  EXPECT_EQ(DescribeRecording(Copy("golden-v1-referenced-pages").path()),
            FileText("tracefmt/testdata/golden-v1-referenced-pages.txt"));
}

// Rings: where they begin, what was dropped, and that what is there is whole.
std::string RingText(const std::string& name) {
  const Copy copy(name);
  const auto trace = TraceReader::Open(copy.path());
  EXPECT_TRUE(trace.ok()) << trace.status();
  if (!trace.ok()) return "";
  for (const absl::Status& damage : (*trace)->damage()) ADD_FAILURE() << damage;
  for (const auto& keyframe : (*trace)->full_keyframes()) {
    EXPECT_TRUE(keyframe->CheckFile().ok()) << keyframe->CheckFile();
  }
  return DescribeRing(**trace);
}

TEST(Golden, Version1RingOfTheProcess) {
  EXPECT_EQ(RingText("golden-v1-ring"), FileText("tracefmt/testdata/golden-v1-ring.txt"));
}

TEST(Golden, Version1RingByThread) {
  EXPECT_EQ(RingText("golden-v1-ring-by-thread"),
            FileText("tracefmt/testdata/golden-v1-ring-by-thread.txt"));
}

TEST(Golden, TheWriterStillWritesTheSame) {
  const char* parent = getenv("TEST_TMPDIR");
  std::string directory = std::string(parent == nullptr ? "/tmp" : parent) + "/golden.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  WriteSampleTrace(directory);
  EXPECT_EQ(DescribeRecording(directory),
            FileText("tracefmt/testdata/golden-v1-referenced-pages.txt"));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace hindsight
