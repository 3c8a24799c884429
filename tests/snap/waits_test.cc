// Calls with timeouts end when they would have ended, with what they would have returned, however
// often snapshots disturb them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/harness/gdb.h"

namespace hindsight::e2e {
namespace {

constexpr int kTimeoutMs = 300;
// Beyond the timeout: the time until the first snapshot, and a machine that is busy.
constexpr int kLateMs = 3000;

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

struct Disturbance {
  std::vector<std::string> options;
  bool signals = false;  // the program's own, ignored
};

class WaitsTest : public testing::TestWithParam<Disturbance> {
 protected:
  // Runs the program under `hindsight snap`, and natively.
  void RunBoth() {
    std::vector<std::string> program = {Runfile("tests/snap/waits")};
    if (GetParam().signals) program.push_back("signals");
    const ChildResult native = RunProcess(program);
    ASSERT_EQ(native.Ending(), "exit 0");
    native_ = Parse(native.out);
    ASSERT_EQ(native_.size(), 10u) << native.out;

    std::vector<std::string> argv = {Hindsight(), "snap", "-o", trace_};
    argv.insert(argv.end(), GetParam().options.begin(), GetParam().options.end());
    argv.push_back("--");
    argv.insert(argv.end(), program.begin(), program.end());
    const ChildResult snapped = RunProcess(argv, {.timeout = absl::Seconds(40)});
    ASSERT_EQ(snapped.Ending(), "exit 0") << snapped.err;
    snapped_ = Parse(snapped.out);
    ASSERT_EQ(snapped_.size(), native_.size()) << snapped.out;
  }

  const TempDir directory_;
  const std::string trace_ = directory_.File("trace");
  std::map<std::string, Wait> native_, snapped_;
};

TEST_P(WaitsTest, EndWhenTheirTimeIsOver) {
  ASSERT_NO_FATAL_FAILURE(RunBoth());
  for (const auto& [name, wait] : snapped_) {
    EXPECT_EQ(wait.results, native_.at(name).results) << name;
    EXPECT_GE(wait.least_ms, std::min(kTimeoutMs, native_.at(name).least_ms)) << name;
    EXPECT_LE(wait.most_ms, native_.at(name).most_ms + kLateMs) << name;
  }
}

// With --on-signal the process is traced all the time.
INSTANTIATE_TEST_SUITE_P(By, WaitsTest,
                         testing::Values(Disturbance{{"--every=20ms"}},
                                         Disturbance{{"--every=20ms", "--on-signal=SEGV"}},
                                         Disturbance{{"--every=120ms"}},
                                         Disturbance{{"--on-signal=SEGV"}, true}));

// A call that was made again is known by flags that the thread does not show.
class WaitingThreadsTest : public WaitsTest {};

TEST_P(WaitingThreadsTest, HaveTheirOwnFlags) {
  ASSERT_NO_FATAL_FAILURE(RunBoth());
  constexpr uint64_t kZeroFlag = 0x40, kNegativeFlag = 0x80;
  // Not in the first, of a machine that is busy: the threads have not all begun.
  int looked = 0;
  for (int number = 2; number <= 12 && looked < 2; ++number) {
    const std::string core = directory_.File(absl::StrCat("core", number));
    const ChildResult made =
        RunProcess({Hindsight(), "core", trace_, absl::StrCat(number), "-o", core});
    ASSERT_EQ(made.Ending(), "exit 0") << made.err;
    const GdbResult gdb = RunGdbOnCore(Runfile("tests/snap/waits"), core,
                                       {"thread apply all printf \"flags: %d\\n\", $eflags"});
    const std::vector<std::string> all = gdb.Answers("flags");
    if (all.size() <= 5) continue;
    ++looked;
    for (const std::string& text : all) {
      uint64_t flags = 0;
      ASSERT_TRUE(absl::SimpleAtoi(text, &flags)) << text;
      EXPECT_FALSE((flags & kZeroFlag) != 0 && (flags & kNegativeFlag) != 0) << number;
    }
  }
  EXPECT_EQ(looked, 2);
}

INSTANTIATE_TEST_SUITE_P(By, WaitingThreadsTest,
                         testing::Values(Disturbance{{"--every=20ms"}},
                                         Disturbance{{"--every=20ms", "--on-signal=SEGV"}}));

}  // namespace
}  // namespace hindsight::e2e
