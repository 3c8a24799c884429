// Recordings from which something was taken: `hindsight verify` must not call them exact.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

// One recording of two threads, with segments and full keyframes.
const std::string& Original() {
  static const Recorded* recorded =
      new Recorded({Program("threads")}, {},
                   {"--light-keyframe-interval=20000", "--full-keyframe-interval=40000"});
  EXPECT_EQ(recorded->run().Ending(), "exit 0") << recorded->run().err;
  return recorded->trace();
}

// The names in `directory`, those that are numbers (up to a dot) by number.
std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::atoi(a.c_str()) < std::atoi(b.c_str());
  });
  return names;
}

// "exact" or what verify says in one line.
std::string Verdict(const std::string& trace) {
  const ChildResult verify = RunHindsight({"verify", trace});
  const std::string text = verify.out.substr(0, verify.out.find('\n'));
  const bool exact = verify.out.starts_with("exact: ");
  EXPECT_EQ(verify.Ending(), exact ? "exit 0" : "exit 1") << verify.out << verify.err;
  if (!exact) {
    EXPECT_THAT(verify.out, HasSubstr("NOT exact"));
    EXPECT_EQ(std::count(verify.out.begin(), verify.out.end(), '\n'), 1) << verify.out;
  }
  return exact ? "exact" : text;
}

class RemovedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    trace_ = directory_.File("trace");
    std::filesystem::copy(Original(), trace_, std::filesystem::copy_options::recursive);
    ASSERT_EQ(Verdict(trace_), "exact");
    const std::vector<std::string> threads = Names(trace_ + "/threads");
    ASSERT_EQ(threads.size(), 2u);
    main_ = InfoField(trace_, "pid");
    other_ = threads[0] == main_ ? threads[1] : threads[0];
    const std::string of_main = absl::StrCat(trace_, "/threads/", main_, "/");
    const std::vector<std::string> segments = Names(of_main);
    ASSERT_GE(segments.size(), 3u);
    last_segment_ = of_main + segments.back();
    keyframes_ = Names(trace_ + "/full").size();
    ASSERT_GE(keyframes_, 3u);
  }
  void Remove(const std::string& path) { ASSERT_GT(std::filesystem::remove_all(path), 0u) << path; }
  // Without its last block, or empty.
  void CutLastBlock(const std::string& path) {
    const std::string bytes = ReadFile(path);
    size_t last = 0;
    for (size_t at = 0; at + 32 <= bytes.size();) {
      uint32_t stored = 0;
      std::memcpy(&stored, &bytes[at + 8], sizeof(stored));
      last = at;
      at += 32 + stored;
    }
    WriteFile(path, bytes.substr(0, last));
  }

  TempDir directory_;
  std::string trace_;
  std::string main_, other_, last_segment_;
  size_t keyframes_ = 0;
};

TEST_F(RemovedTest, TheLastSegment) {
  Remove(last_segment_);
  EXPECT_THAT(Verdict(trace_), HasSubstr(absl::StrCat("threads/", main_, ": has ")));
}

TEST_F(RemovedTest, TheFirstSegment) {
  Remove(absl::StrCat(trace_, "/threads/", main_, "/0.seg"));
  EXPECT_THAT(Verdict(trace_), HasSubstr(absl::StrCat("threads/", main_, ": has ")));
}

TEST_F(RemovedTest, AThread) {
  Remove(absl::StrCat(trace_, "/threads/", other_));
  EXPECT_THAT(Verdict(trace_), HasSubstr("has 1 threads, recorded were 2"));
}

TEST_F(RemovedTest, TheLastFullKeyframe) {
  Remove(absl::StrCat(trace_, "/full/", keyframes_));
  EXPECT_THAT(Verdict(trace_), HasSubstr(absl::StrCat("recorded were ", keyframes_)));
}

TEST_F(RemovedTest, TheFirstFullKeyframe) {
  Remove(absl::StrCat(trace_, "/full/1"));
  EXPECT_NE(Verdict(trace_), "exact");
}

TEST_F(RemovedTest, EventsCutAtTheBorderOfABlock) {
  CutLastBlock(trace_ + "/events");
  EXPECT_THAT(Verdict(trace_), HasSubstr("event"));
}

TEST_F(RemovedTest, AllEvents) {
  WriteFile(trace_ + "/events", "");
  EXPECT_THAT(Verdict(trace_), HasSubstr("event"));
}

TEST_F(RemovedTest, RecordsCutAtTheBorderOfABlock) {
  CutLastBlock(last_segment_);
  EXPECT_NE(Verdict(trace_), "exact");
}

TEST_F(RemovedTest, TheListOfModules) {
  WriteFile(trace_ + "/modules/list", "");
  EXPECT_NE(Verdict(trace_), "exact");
}

TEST_F(RemovedTest, TheBytesOfAModule) {
  for (const std::string& name : Names(trace_ + "/modules")) {
    if (name == "list") continue;
    Remove(absl::StrCat(trace_, "/modules/", name));
    break;
  }
  EXPECT_NE(Verdict(trace_), "exact");
}

TEST(RemovedProcessTest, IsMissed) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  ASSERT_EQ(Record(trace, {Program("forks")}).Ending(), "exit 0");
  ExpectExact(trace);
  const std::vector<std::string> children = ChildProcesses(trace);
  ASSERT_EQ(children.size(), 1u);
  std::filesystem::remove_all(absl::StrCat(trace, "/processes/", children[0]));
  EXPECT_THAT(Verdict(trace), HasSubstr(absl::StrCat("process ", children[0])));
}

TEST(VerdictTest, SaysWhatWasChecked) {
  const ChildResult text = RunHindsight({"verify", Original()});
  EXPECT_THAT(text.out, HasSubstr("checked: nothing is missing"));
  EXPECT_THAT(text.out, HasSubstr("bytes of memory"));
  const ChildResult json = RunHindsight({"verify", "--json", Original()});
  for (const char* key :
       {"allRecordedIsThere", "memoryBytes", "events", "keyframePages", "modules", "unchecked"}) {
    EXPECT_THAT(json.out, HasSubstr(absl::StrCat("\"", key, "\"")));
  }
}

}  // namespace
}  // namespace hindsight::e2e
