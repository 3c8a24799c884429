// gdb's machine interface, which development environments use: VS Code's cppdbg,
// and the DAP adapters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Matcher;

// From the start of the recording.
GdbResult RunMi(const std::string& commands) {
  static const Recorded* recorded = new Recorded({Program("thread_names")});
  return Server(recorded->trace()).RunMi(commands);
}

// The value of `name="..."` in a record, where it comes first.
std::string Field(absl::string_view record, absl::string_view name) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(record, absl::MaxSplits(absl::StrCat(name, "=\""), 1));
  return std::string(parts.second.substr(0, parts.second.find('"')));
}

// What gdb says of each stop, without the first, that of the connection: "breakpoint-hit 1 main".
std::vector<std::string> Stops(const GdbResult& gdb) {
  std::vector<std::string> stops;
  for (const std::string& record : gdb.Records("*stopped,")) {
    const absl::string_view place = absl::string_view(record).substr(record.find("frame="));
    stops.push_back(absl::StrCat(Field(record, "reason"), " ", Field(place, "thread-id"), " ",
                                 Field(place, "func")));
  }
  if (!stops.empty()) stops.erase(stops.begin());
  return stops;
}

TEST(GdbMiTest, ThreadsAreListedAndSelected) {
  const GdbResult gdb = RunMi(R"(-list-target-features
-break-insert -f round_reached
-exec-continue
-thread-info
-thread-list-ids
-thread-select 3
-stack-list-frames
-stack-info-frame --thread 2 --frame 0
-thread-info
-interpreter-exec console "monitor when"
-stack-list-arguments --thread 1 --simple-values 0 0
)");
  EXPECT_THAT(gdb.Records("1^done"), ElementsAre(HasSubstr("\"reverse\""))) << gdb.text;
  EXPECT_THAT(gdb.Records("4^done"), ElementsAre(HasSubstr("name=\"worker 2\""))) << gdb.text;
  EXPECT_THAT(gdb.Records("4^done"), ElementsAre(HasSubstr("current-thread-id=\"1\""))) << gdb.text;
  EXPECT_THAT(gdb.Records("5^done"), ElementsAre(HasSubstr("number-of-threads=\"4\""))) << gdb.text;
  EXPECT_THAT(gdb.Records("6^done"), ElementsAre(HasSubstr("new-thread-id=\"3\""))) << gdb.text;
  EXPECT_THAT(gdb.Records("7^done"), ElementsAre(HasSubstr("func=\"run\""))) << gdb.text;
  EXPECT_THAT(gdb.Records("8^done"), ElementsAre(HasSubstr("level=\"0\""))) << gdb.text;
  // Looking into another thread selects it, in this version of gdb; the server follows.
  const std::vector<std::string> list = gdb.Records("9^done");
  ASSERT_EQ(list.size(), 1u) << gdb.text;
  const std::string selected = Field(list[0], "current-thread-id");
  const absl::string_view of_selected =
      absl::string_view(list[0]).substr(list[0].find(absl::StrCat("{id=\"", selected, "\"")));
  const std::vector<std::string> target = absl::StrSplit(Field(of_selected, "target-id"), '.');
  EXPECT_THAT(gdb.Records("@\"position "),
              ElementsAre(HasSubstr(absl::StrCat("thread ", target.back(), ","))))
      << gdb.text;
  EXPECT_THAT(gdb.Records("11^done"), ElementsAre(HasSubstr("name=\"round\""))) << gdb.text;
}

TEST(GdbMiTest, ExecutionGoesBackInAnyThread) {
  const GdbResult gdb = RunMi(R"(-break-insert -f round_reached
-exec-continue
-exec-continue
-exec-continue --reverse
-exec-finish --reverse
-exec-continue
-thread-select 2
-exec-step-instruction
-exec-step-instruction --reverse
-exec-step-instruction --thread 3
-exec-step-instruction --thread 3 --reverse
-exec-next --thread 1 --reverse
-break-delete 1
-exec-continue --reverse
-thread-info
)");
  const std::vector<std::string> stops = Stops(gdb);
  ASSERT_EQ(stops.size(), 11u) << gdb.text;
  // A function of glibc's. Threads that run at the same time are anywhere on the way there.
  const std::string waits =
      Engine() == TestedEngine::kEmulate ? stops[5].substr(stops[5].rfind(' ') + 1) : std::string();
  // The first thread went on into its system call while the others were stepped; or, where threads
  // run at the same time, only to where it sees memory anew, in printf: then the line before is the
  // breakpoint's. There it can be at the breakpoint, too, while another is stepped.
  const auto steps = [](const std::string& where) -> Matcher<std::string> {
    const Matcher<std::string> stepped = HasSubstr("end-stepping-range " + where);
    if (Engine() == TestedEngine::kEmulate) return stepped;
    return AnyOf(stepped, "breakpoint-hit 1 round_reached");
  };
  EXPECT_THAT(
      stops, ElementsAre("breakpoint-hit 1 round_reached", "breakpoint-hit 1 round_reached",
                         "breakpoint-hit 1 round_reached", "end-stepping-range 1 main",
                         "breakpoint-hit 1 round_reached", steps("2 " + waits), steps("2 " + waits),
                         steps("3 " + waits), steps("3 " + waits), steps("1 "), " 1 _start"))
      << gdb.text;
  EXPECT_THAT(gdb.text, HasSubstr("No more reverse-execution history")) << gdb.text;
  // Those that have not begun yet are gone from the list.
  for (const char* thread : {"2", "3", "4"}) {
    EXPECT_THAT(gdb.Records(absl::StrCat("=thread-exited,id=\"", thread, "\"")), testing::SizeIs(1))
        << gdb.text;
  }
  EXPECT_THAT(gdb.Records("15^done"), ElementsAre(testing::Not(HasSubstr("worker")))) << gdb.text;
}

TEST(GdbMiTest, JumpsAndQuestionsFromTheConsole) {
  const GdbResult gdb = RunMi(R"(-break-insert -f round_reached
-exec-continue
-interpreter-exec console "hindsight goto end"
-thread-info
-exec-continue --reverse
-thread-info
-interpreter-exec console "hindsight goto start"
-stack-info-frame
)");
  EXPECT_THAT(gdb.Records("3^"), ElementsAre("done")) << gdb.text;
  EXPECT_THAT(gdb.Records("4^done"), ElementsAre(testing::Not(HasSubstr("worker")))) << gdb.text;
  EXPECT_THAT(Stops(gdb),
              ElementsAre("breakpoint-hit 1 round_reached", "breakpoint-hit 1 round_reached"))
      << gdb.text;
  EXPECT_THAT(gdb.Records("6^done"), ElementsAre(HasSubstr("worker 1"))) << gdb.text;
  EXPECT_THAT(gdb.Records("8^done"), ElementsAre(HasSubstr("func=\"_start\""))) << gdb.text;
}

}  // namespace
}  // namespace hindsight::e2e
