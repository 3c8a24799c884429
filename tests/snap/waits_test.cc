// Calls with timeouts end when they would have ended, with what they would have returned, however
// often snapshots disturb them.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"

namespace hindsight::e2e {
namespace {

constexpr int kTimeoutMs = 300;
// Beyond the timeout: the time until the first snapshot, and a machine that is busy.
constexpr int kLateMs = 600;

struct Wait {
  std::string results;
  int least_ms = 0, most_ms = 0;
};

// By the name of the call, from the lines that waits.c prints.
std::map<std::string, Wait> Parse(const std::string& out) {
  std::map<std::string, Wait> waits;
  for (const auto line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 7) continue;
    Wait& wait = waits[words[0]];
    wait.results = words[1] + words[2] + " " + words[3] + words[4];
    EXPECT_TRUE(absl::SimpleAtoi(words[5], &wait.least_ms)) << line;
    EXPECT_TRUE(absl::SimpleAtoi(words[6], &wait.most_ms)) << line;
  }
  return waits;
}

class WaitsTest : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(WaitsTest, EndWhenTheirTimeIsOver) {
  const std::string program = Runfile("tests/snap/waits");
  const ChildResult native = RunProcess({program});
  ASSERT_EQ(native.Ending(), "exit 0");
  const std::map<std::string, Wait> expected = Parse(native.out);
  ASSERT_EQ(expected.size(), 10u) << native.out;

  const TempDir directory;
  std::vector<std::string> argv = {Hindsight(), "snap", "-o", directory.path() + "/trace"};
  argv.insert(argv.end(), GetParam().begin(), GetParam().end());
  argv.insert(argv.end(), {"--", program});
  const ChildResult snapped = RunProcess(argv, {.timeout = absl::Seconds(40)});
  ASSERT_EQ(snapped.Ending(), "exit 0") << snapped.err;
  const std::map<std::string, Wait> waits = Parse(snapped.out);
  ASSERT_EQ(waits.size(), expected.size()) << snapped.out;
  for (const auto& [name, wait] : waits) {
    EXPECT_EQ(wait.results, expected.at(name).results) << name;
    EXPECT_GE(wait.least_ms, std::min(kTimeoutMs, expected.at(name).least_ms)) << name;
    EXPECT_LE(wait.most_ms, expected.at(name).most_ms + kLateMs) << name;
  }
}

// With --on-signal the process is traced all the time.
INSTANTIATE_TEST_SUITE_P(Timers, WaitsTest,
                         testing::Values(std::vector<std::string>{"--every=20ms"},
                                         std::vector<std::string>{"--every=20ms",
                                                                  "--on-signal=SEGV"},
                                         std::vector<std::string>{"--every=120ms"}));

}  // namespace
}  // namespace hindsight::e2e
