// Every kind of point inside recordings, compared with snapshots of the program itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/snap/kinds_fixture.h"

namespace hindsight::e2e {
namespace {

using ::testing::ElementsAre;

// The list is that of the snapshots of the program itself, and so is what they show.
TEST_F(KindsTest, EveryKindInARecording) {
  const bool emulated = Engine() == TestedEngine::kEmulate;
  std::vector<std::string> options = {"--on-exception=*", "--on-signal=USR1"};
  if (emulated) options.push_back("--at=work");
  const std::string look = absl::StrCat(kList, kWalk, R"(
python
last = count()
for number in range(1, last + 1):
  gdb.execute("hindsight goto snapshot %d" % number, to_string=True)
  say("walk", look())
gdb.execute("hindsight goto start", to_string=True)
for number in range(1, last + 1):
  gdb.execute("hindsight goto snapshot next", to_string=True) if number > first else None
  say("next", look())
for number in range(last, 0, -1):
  say("previous", look())
  gdb.execute("hindsight goto snapshot previous", to_string=True) if number > 1 else None
end
)");
  const GdbResult recorded = RunGdb(RecordingOf(options), absl::StrCat("python first = 0\n", look));
  const GdbResult native = RunGdb(Snap(options), absl::StrCat("python first = 1\n", look));
  EXPECT_EQ(Listed(recorded), Listed(native)) << recorded.text;
  EXPECT_EQ(WithoutLines(Listed(recorded)), AllKinds({.signals = true, .functions = emulated}));
  EXPECT_EQ(recorded.Answers("walk"), native.Answers("walk")) << recorded.text;
  EXPECT_EQ(recorded.Answers("next"), native.Answers("walk")) << recorded.text;
  std::vector<std::string> backward = native.Answers("walk");
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(recorded.Answers("previous"), backward) << recorded.text;
}

// Between two snapshots the recording has every state: a watchpoint stops at the store itself.
TEST_F(KindsTest, BetweenTwoSnapshotsOfARecordingIsTheStore) {
  const GdbResult gdb = RunGdb(RecordingOf({"--snapshots"}), R"(
hindsight goto snapshot 6
python say("text", value("(char *) text"))
watch handled
python say("stop", run("reverse-continue"))
python say("function", "OnSignal" in functions()[0])
python say("handled", value("handled"))
hindsight goto snapshot 3
handle SIGUSR1 nostop noprint
python say("stop", run("continue"))
python say("handled", value("handled"))
delete
break work
python say("stop", run("continue"))
python say("number", value("number"))
hindsight goto snapshot next
python say("round", value("round_now"))
)");
  EXPECT_THAT(gdb.Answers("stop"), ElementsAre("breakpoint 1", "breakpoint 1", "breakpoint 2"))
      << gdb.text;
  EXPECT_EQ(gdb.Answer("function"), "True") << gdb.text;
  EXPECT_THAT(gdb.Answers("handled"), ElementsAre("0", "1")) << gdb.text;
  EXPECT_EQ(gdb.Answer("number"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("round"), "2") << gdb.text;
}

TEST_F(KindsTest, FiltersInARecording) {
  const auto taken = [&](const std::vector<std::string>& options) {
    return WithoutLines(Kinds(RecordingOf(options)));
  };
  EXPECT_THAT(taken({"--trigger=condition,assertion"}),
              ElementsAre("condition, libhindsight/testdata/kinds.cc:LINE: number == 2",
                          "assertion, libhindsight/testdata/kinds.cc:LINE: number != 3"));
  EXPECT_THAT(taken({"--trigger=point", "--level=3"}),
              ElementsAre("point 9/8/1", "point 3/7/13, phase=end, rank=2"));
  EXPECT_THAT(taken({"--trigger=none", "--on-exception=std::exception"}),
              ElementsAre("exception, std::runtime_error, what=the second"));
}

}  // namespace
}  // namespace hindsight::e2e
