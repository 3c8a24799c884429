// hindsight refine of a recording: each snapshot is the recording's state where it says it is from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

class RefinedRecordingTest : public testing::Test {
 protected:
  // The positions of the snapshots that `options` make of the recording.
  std::vector<std::string> Refine(const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"refine", recorded_.trace(), "-o", refined_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ChildResult refine = RunHindsight(arguments);
    EXPECT_EQ(refine.Ending(), "exit 0") << refine.err;
    EXPECT_THAT(RunHindsight({"verify", refined_}).out, testing::StartsWith("whole: "));
    std::vector<std::string> positions;
    const std::string info = RunHindsight({"info", refined_}).out;
    for (size_t at = info.find("position="); at != info.npos; at = info.find("position=", at)) {
      at += 9;
      positions.push_back(info.substr(at, info.find_first_of("; \n", at) - at));
    }
    return positions;
  }
  std::string Core(const std::string& trace, const std::string& place) {
    const TempDir directory;
    const std::string file = directory.File("core");
    EXPECT_EQ(RunHindsight({"core", trace, place, "-o", file}).Ending(), "exit 0");
    return ReadFile(file);
  }

  Recorded recorded_{{Program("loop"), "0.3"}, {}, {}};
  TempDir directory_;
  const std::string refined_ = directory_.File("refined");
};

TEST_F(RefinedRecordingTest, GdbSeesTheSameInBoth) {
  const std::vector<std::string> positions = Refine({"--from=50%", "--to=90%", "--count=4"});
  ASSERT_EQ(positions.size(), 4u);
  constexpr char kState[] = R"(
python say("registers", sorted(item for item in all_registers().items() if item[0] != "orig_rax"))
python say("functions", functions())
python say("table", value("table"))
python say("last_round", value("last_round"))
)";
  for (size_t i = 0; i < positions.size(); ++i) {
    const GdbResult snapshot =
        RunGdb(refined_, absl::StrCat("hindsight goto snapshot ", i + 1, kState));
    const GdbResult recording =
        RunGdb(recorded_.trace(), absl::StrCat("hindsight goto ", positions[i], kState));
    for (const char* tag : {"registers", "functions", "table", "last_round"}) {
      EXPECT_EQ(snapshot.Answer(tag), recording.Answer(tag)) << i << tag << snapshot.text;
    }
    // All of memory.
    EXPECT_EQ(Core(refined_, absl::StrCat(i + 1)), Core(recorded_.trace(), positions[i])) << i;
  }
}

TEST_F(RefinedRecordingTest, AVariableIsWatched) {
  const std::vector<std::string> positions = Refine({"--watch=last_round", "--from=50%"});
  ASSERT_GE(positions.size(), 3u);
  const ChildResult diff = RunHindsight({"diff", refined_, "2", "3"});
  EXPECT_THAT(diff.out, HasSubstr(" last_round "));
}

TEST_F(RefinedRecordingTest, WhatDoesNotBelongTogetherIsRefused) {
  const ChildResult keep = RunHindsight({"refine", recorded_.trace(), "--keep=x"});
  EXPECT_NE(keep.Ending(), "exit 0");
  EXPECT_THAT(keep.err, HasSubstr("--keep is not for a recording"));
  Refine({"--count=2"});
  const ChildResult count = RunHindsight({"refine", refined_, "--from=1", "--count=3"});
  EXPECT_NE(count.Ending(), "exit 0");
  EXPECT_THAT(count.err, HasSubstr("--count is not for a sequence of snapshots"));
}

}  // namespace
}  // namespace hindsight::e2e
