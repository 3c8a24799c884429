// The points of a process that hindsight snap is attached to.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

std::string MapOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/maps"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class AttachedPointsTest : public testing::Test {
 protected:
  AttachedPointsTest()
      : program_(Child::Start({Runfile("tests/snap/endless")}, {.keep_input_open = true})) {
    size_t position = 0;
    EXPECT_TRUE(program_.WaitForOut("ready\n", &position));
  }
  Child Attach(const std::string& trace) const {
    return Child::Start({Hindsight(), "snap", "-o", trace, "--id=1-2", "--interval=20ms",
                         absl::StrCat("--attach=", program_.pid())});
  }
  void ExpectAlive() {
    program_.CloseInput();
    EXPECT_EQ(program_.Finish().out, "ready\nalive\n");
  }

  TempDir directory_;
  Child program_;
};

TEST_F(AttachedPointsTest, PassAndLeaveNothingBehind) {
  for (const std::string name : {"first", "second"}) {
    const std::string trace = directory_.File(name);
    Child snap = Attach(trace);
    ASSERT_TRUE(snap.WaitForFile(trace + "/full/5")) << snap.err();
    snap.Signal(SIGINT);
    const ChildResult result = snap.Finish();
    EXPECT_EQ(result.Ending(), "exit 0") << result.err;
    const auto reader = TraceReader::Open(trace);
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const ProcessEvent& event : (*reader)->events()) {
      if (event.kind != EventKind::kSnapshot) continue;
      EXPECT_EQ(event.arguments.at(1), 2u);
      EXPECT_NE(event.arguments.at(4), 0u) << "an id that does not pass";
    }
    EXPECT_FALSE(absl::StrContains(MapOf(program_.pid()), "memfd:"));
  }
  ExpectAlive();
}

// Nobody answers any more, and nobody waits.
TEST_F(AttachedPointsTest, KilledCapturer) {
  const std::string trace = directory_.File("trace");
  Child snap = Attach(trace);
  ASSERT_TRUE(snap.WaitForFile(trace + "/full/3")) << snap.err();
  snap.SignalGroup(SIGKILL);
  snap.Finish();
  ExpectAlive();
}

TEST_F(AttachedPointsTest, AreSaidToBeMissingWhereThereAreNone) {
  Child without = Child::Start({"/bin/sleep", "60"});
  Child snap = Child::Start({Hindsight(), "snap", "-o", directory_.File("trace"), "--id=1",
                             absl::StrCat("--attach=", without.pid())});
  size_t position = 0;
  EXPECT_TRUE(snap.WaitForErr("has no points that are free to be listened to", &position));
  snap.Signal(SIGINT);
  EXPECT_EQ(snap.Finish().Ending(), "exit 0");
}

}  // namespace
}  // namespace hindsight::e2e
