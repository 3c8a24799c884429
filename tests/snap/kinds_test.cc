// Every kind of point, with every filter, as the real gdb shows it in snapshots of a program that
// runs natively.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/snap/kinds_fixture.h"

namespace hindsight::e2e {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST_F(KindsTest, EveryKindNatively) {
  const std::string trace = Snap({"--on-exception=*", "--on-signal=USR1", "--at=work"});
  const GdbResult gdb = RunGdb(trace, absl::StrCat(kList, kWalk, R"(
python
last = count()
seen = {}
for number in range(1, last + 1):
  seen[number] = look()
  say("walk", seen[number])
  gdb.execute("continue", to_string=True)
say("stays", look() == seen[last])
back = True
for number in range(last - 1, 0, -1):
  gdb.execute("reverse-continue", to_string=True)
  back = back and look() == seen[number]
say("back", back)
places = list(range(1, last + 1))
import random
random.Random(1).shuffle(places)
any = True
for number in places:
  gdb.execute("hindsight goto snapshot %d" % number, to_string=True)
  any = any and look() == seen[number]
  gdb.execute("monitor goto snapshot %d" % (last + 1 - number), to_string=True)
  any = any and look() == seen[last + 1 - number]
say("any", any)
gdb.execute("hindsight goto start", to_string=True)
beside = True
for number in range(2, last + 1):
  gdb.execute("hindsight goto snapshot next", to_string=True)
  beside = beside and look() == seen[number]
for number in range(last - 1, 0, -1):
  gdb.execute("hindsight goto snapshot previous", to_string=True)
  beside = beside and look() == seen[number]
say("beside", beside)
end
)"));
  EXPECT_EQ(WithoutLines(Listed(gdb)), AllKinds({.signals = true, .functions = true})) << gdb.text;
  EXPECT_THAT(gdb.Answers("walk"),
              ElementsAre("1 0 begin main", "1 0 begin main", "1 0 begin main",
                          MatchesRegex("1 0 begin main( raise)?"), "1 1 begin main work",
                          "2 1 begin main", "2 1 begin main", "2 1 second main",
                          MatchesRegex("2 1 second (__cxa_throw )?main"), "2 1 second main work",
                          "3 1 second main", "3 1 second main", "3 1 second main",
                          MatchesRegex("3 1 second (__cxa_throw )?main"), "3 1 second main work"))
      << gdb.text;
  for (const char* tag : {"stays", "back", "any", "beside"}) {
    EXPECT_EQ(gdb.Answer(tag), "True") << tag << gdb.text;
  }
}

TEST_F(KindsTest, AWatchpointFindsTheTwoSnapshotsBetweenWhichItChanged) {
  const std::string trace = Snap({"--on-signal=USR1"});
  const GdbResult gdb = RunGdb(trace, R"(
python
def number():
  return int(gdb.execute("monitor when", to_string=True).split(":")[0].split()[1])
def stops(command):
  found = []
  while True:
    before = number()
    gdb.execute(command)
    if number() == before: return found
    found.append(number())
end
watch handled
python say("handled", stops("continue"))
delete
hindsight goto start
watch -l *(long *) &text if handled == 1
python say("text", stops("continue"))
delete
watch round_now
python say("round", stops("reverse-continue"))
)");
  // 4 is before the signal, 5 the first after it; the last one is the end of the history.
  EXPECT_EQ(gdb.Answer("handled"), "[5, 10]") << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("changed between snapshots 4 and 5"));
  EXPECT_EQ(gdb.Answer("text"), "[7, 10]") << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("changed between snapshots 6 and 7"));
  EXPECT_EQ(gdb.Answer("round"), "[7, 4, 1]") << gdb.text;
}

TEST_F(KindsTest, FiltersNatively) {
  EXPECT_THAT(Kinds(Snap({"--trigger=call"})),
              ElementsAre("call, direct", "call, direct", "call, direct"));
  EXPECT_THAT(WithoutLines(Kinds(Snap({"--trigger=condition,assertion"}))),
              ElementsAre("condition, libhindsight/testdata/kinds.cc:LINE: number == 2",
                          "assertion, libhindsight/testdata/kinds.cc:LINE: number != 3"));
  // Once in the source, whatever else passes.
  EXPECT_THAT(Kinds(Snap({"--trigger=point", "--class=8"})), ElementsAre("point 9/8/1"));
  EXPECT_THAT(Kinds(Snap({"--trigger=point", "--level=3"})),
              ElementsAre("point 9/8/1", "point 3/7/13, phase=end, rank=2"));
  EXPECT_THAT(Kinds(Snap({"--trigger=point", "--id=12-13"})),
              ElementsAre("point 2/7/12, phase=on, rank=2", "point 3/7/13, phase=end, rank=2"));
  EXPECT_THAT(Kinds(Snap({"--trigger=point", "--attr=phase=on", "--attr=rank=2"})),
              ElementsAre("point 1/7/11, phase=on, rank=2", "point 2/7/12, phase=on, rank=2"));
  EXPECT_THAT(Kinds(Snap({"--trigger=point", "--attr=phase=end"})),
              ElementsAre("point 3/7/13, phase=end, rank=2"));
  EXPECT_THAT(Kinds(Snap({"--trigger=point", "--skip=1", "--stride=2"})),
              ElementsAre("point 9/8/1", "point 3/7/13, phase=end, rank=2"));
  EXPECT_THAT(Kinds(Snap({"--trigger=point", "--interval=1h"})),
              ElementsAre("point 1/7/11, phase=on, rank=2"));
  EXPECT_THAT(Kinds(Snap({"--max=2"})),
              ElementsAre("call, direct", "point 1/7/11, phase=on, rank=2"));
  EXPECT_THAT(Kinds(Snap({"--trigger=none", "--on-exception=std::exception"})),
              ElementsAre("exception, std::runtime_error, what=the second"));
  EXPECT_THAT(Kinds(Snap({"--trigger=none", "--on-exception=int"})), ElementsAre("exception, int"));
}

TEST_F(KindsTest, TheTimerNatively) {
  const std::vector<std::string> kinds = Kinds(Snap({"--trigger=none", "--every=20ms"}, "wait"));
  EXPECT_GE(kinds.size(), 5u);
  EXPECT_THAT(kinds, Each("timer"));
}

}  // namespace
}  // namespace hindsight::e2e
