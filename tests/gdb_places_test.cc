// Going back to places: run and start, bookmarks, places visited.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

const std::string& Steps() {
  static const Recorded* recorded = new Recorded({Program("steps")});
  return recorded->trace();
}

TEST(GdbPlacesTest, RunAndStartBeginAgain) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break triple
continue
python first = when()
continue
continue
python say("later", when() != first)
run
python say("run", when() == first)
start
python say("start", function())
reverse-continue
python say("begin", when().split(",")[0])
)");
  EXPECT_EQ(gdb.Answer("later"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("run"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("start"), "main") << gdb.text;
  EXPECT_EQ(gdb.Answer("begin"), "position 0:0") << gdb.text;
}

TEST(GdbPlacesTest, BookmarksLastAsLongAsTheTrace) {
  const Recorded recorded({Program("steps")});
  const GdbResult first = RunGdb(recorded.trace(), R"(
break triple if value == 3
continue
hindsight bookmark three
python say("at", when())
hindsight start
hindsight bookmark gone
hindsight unbookmark gone
)");
  const GdbResult second = RunGdb(recorded.trace(), R"(
hindsight bookmarks
hindsight goto bookmark three
python say("at", when())
python say("value", value("value"))
)");
  EXPECT_EQ(second.Answer("at"), first.Answer("at")) << second.text;
  EXPECT_EQ(second.Answer("value"), "3") << second.text;
  EXPECT_EQ(second.text.find("gone"), std::string::npos) << second.text;
  ExpectExact(recorded.trace());
}

// Somebody else's trace may have anything there.
TEST(GdbPlacesTest, ABookmarksFileThatIsNoneIsLeftAlone) {
  const Recorded recorded({Program("steps")});
  const std::string file = recorded.trace() + "/bookmarks";
  WriteFile(file, std::string("x: position 1:1\nmonitor help\n\xff\xfe\0: position\n", 44) +
                      "y; shell touch z: position 2:2\n");
  const GdbResult gdb = RunGdb(recorded.trace(), "hindsight bookmarks\n");
  EXPECT_THAT(gdb.text, HasSubstr("x: position 1:1\n"));
  EXPECT_EQ(gdb.text.find("y;"), std::string::npos) << gdb.text;
  // A link is replaced, not followed.
  TempDir elsewhere;
  WriteFile(elsewhere.File("precious"), "precious");
  std::filesystem::remove(file);
  std::filesystem::create_symlink(elsewhere.File("precious"), file);
  RunGdb(recorded.trace(), "hindsight bookmark here\n");
  EXPECT_EQ(ReadFile(elsewhere.File("precious")), "precious");
  EXPECT_THAT(ReadFile(file), HasSubstr("here: position "));
}

// Of a longer recording, or of a ring that has gone on since.
TEST(GdbPlacesTest, BookmarksAtPositionsThatAreNotThereStayInTheFile) {
  const Recorded recorded({Program("steps")});
  const std::string file = recorded.trace() + "/bookmarks";
  const std::string far = "far: position 1:ffffffffff\n";
  WriteFile(file, far + "other: position 1:fffffffffe\n");
  const GdbResult gdb = RunGdb(recorded.trace(), "hindsight bookmark here\n");
  EXPECT_THAT(gdb.text, HasSubstr("Bookmark far is left out: "));
  EXPECT_THAT(ReadFile(file), HasSubstr("here: position "));
  EXPECT_THAT(ReadFile(file), HasSubstr(far));
  RunGdb(recorded.trace(), "hindsight unbookmark other\nhindsight bookmarks\n");
  EXPECT_THAT(ReadFile(file), HasSubstr(far));
  EXPECT_EQ(ReadFile(file).find("other"), std::string::npos) << ReadFile(file);
}

TEST(GdbPlacesTest, BackAndForwardThroughPlacesVisited) {
  const GdbResult gdb = RunGdb(Steps(), R"(
python places = []
python note = lambda: places.append(when())
python note()
break triple
continue
python note()
continue
python note()
hindsight goto 50%
python note()
hindsight back
hindsight back
python say("two back", when() == places[1])
python say("shown", function())
hindsight back
python say("three back", when() == places[0])
hindsight forward
hindsight forward
hindsight forward
python say("forward", when() == places[3])
python
try:
    gdb.execute("hindsight forward")
except gdb.error as error:
    say("end", error)
end
)");
  EXPECT_EQ(gdb.Answer("two back"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("shown"), "triple");
  EXPECT_EQ(gdb.Answer("three back"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("forward"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("end"), "hindsight: no other place was visited there") << gdb.text;
}

TEST(GdbPlacesTest, DiscardShowsTheRecordingAgain) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break triple
continue
python say("before", value("counter") + " " + value("$rax"))
set var counter = 77
set var $rax = 78
python say("written", value("counter") + " " + value("$rax"))
hindsight discard
python say("after", value("counter") + " " + value("$rax"))
)");
  EXPECT_EQ(gdb.Answer("written"), "77 78") << gdb.text;
  EXPECT_EQ(gdb.Answer("after"), gdb.Answer("before")) << gdb.text;
}

TEST(GdbPlacesTest, HindsightAloneListsItsCommands) {
  const GdbResult gdb = RunGdb(Steps(), "hindsight\n");
  for (const char* command : {"hindsight goto -- ", "hindsight back -- ", "hindsight bookmark -- ",
                              "hindsight discard -- ", "hindsight events -- "}) {
    EXPECT_THAT(gdb.text, HasSubstr(command));
  }
  EXPECT_THAT(TryGdb(Steps(), "hindsight nonsense\n").text,
              HasSubstr("There is no `hindsight nonsense`"));
}

// What `hindsight serve` names is all that a gdb of the user's needs.
TEST(GdbPlacesTest, ServeInstallsTheCommands) {
  const TempDir home("/tmp");
  ChildOptions options;
  options.environment = {"XDG_DATA_HOME=" + home.path()};
  Child server =
      Child::Start({Hindsight(), "serve", Steps(), "--unix=" + home.File("socket")}, options);
  const std::string file = home.File("hindsight/hindsight_gdb.py");
  size_t position = 0;
  ASSERT_TRUE(server.WaitForOut(absl::StrCat("gdb -x ", file, " -ex"), &position)) << server.err();
  std::vector<std::string> argv = {"gdb"};
  for (const std::string& argument : GdbArguments()) argv.push_back(argument);
  argv.insert(argv.end(),
              {"-x", file, "-ex", "target remote " + home.File("socket"), "-ex", "hindsight when"});
  const ChildResult gdb = RunProcess(argv);
  EXPECT_THAT(gdb.out, HasSubstr("position 0:0, thread")) << gdb.err;
}

}  // namespace
}  // namespace hindsight::e2e
